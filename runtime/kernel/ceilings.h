#pragma once

namespace pumice {

// The most that a device was seen to reach, by kernels made for it or any other: the roof over results.
struct Ceilings {
  double copy_bytes_per_second = 0; // read plus written
  double flops_per_second = 0;      // fused multiply-adds in 32 bits count two
};

} // namespace pumice
