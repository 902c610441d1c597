#pragma once

#include <cstddef>

namespace pumice {

// The sum of `count` products, in eight parts, so that the compiler can add in vectors.
inline float dot(const float* a, const float* b, size_t count) {
  float sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (size_t j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

} // namespace pumice
