#pragma once

namespace pumice {

// What a device reaches with kernels that do nothing else: the roof that results are held against.
struct Ceilings {
  double copy_bytes_per_second = 0; // read plus written
  double flops_per_second = 0;      // fused multiply-adds in 32 bits count two
};

} // namespace pumice
