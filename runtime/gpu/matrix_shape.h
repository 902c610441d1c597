#pragma once

#include <cstdint>

namespace pumice {

// A product of matrices that a device computes at once: [m, k] times [k, n], of halves, with sums in 32 bits.
struct MatrixShape {
  uint32_t m = 0, n = 0, k = 0;
};

} // namespace pumice
