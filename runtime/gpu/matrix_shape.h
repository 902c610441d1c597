#pragma once

#include <cstdint>

namespace pumice {

// The size of a cooperative matrix product: [m, k] times [k, n], of 16-bit floats, with sums in 32 bits.
struct MatrixShape {
  uint32_t m = 0, n = 0, k = 0;
};

} // namespace pumice
