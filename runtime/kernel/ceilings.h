#pragma once

namespace pumice {

// The highest rates that any kernel has reached on a device: upper limits for the speed of other kernels.
struct Ceilings {
  double copy_bytes_per_second = 0; // read plus written
  double flops_per_second = 0;      // fused multiply-adds in 32 bits count two
};

} // namespace pumice
