#pragma once

#include <cstdint>

namespace pumice {

// The highest rates that any kernel has reached on a device: upper limits for the speed of other kernels.
struct Ceilings {
  double copy_bytes_per_second = 0; // read plus written
  double flops_per_second = 0;      // fused multiply-adds in 32 bits count two
  // When each was reached, and when they were last measured: seconds since 1970, 0 if unknown.
  int64_t copy_time = 0, flops_time = 0, measured_time = 0;
};

} // namespace pumice
