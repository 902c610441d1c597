#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/tensor_type.h"

namespace pumice::encode {

// Writes a block of a quantised type. `importance`: how much an error in each of the values counts, or null
// where all count alike.
using Encode = void (*)(const float* values, const float* importance, std::byte* block);

void q2_k(const float* values, const float* importance, std::byte* block);
void q3_k(const float* values, const float* importance, std::byte* block);
void q4_k(const float* values, const float* importance, std::byte* block);
void q5_k(const float* values, const float* importance, std::byte* block);
void q6_k(const float* values, const float* importance, std::byte* block);
void iq4_nl(const float* values, const float* importance, std::byte* block);
void iq4_xs(const float* values, const float* importance, std::byte* block);
void mxfp4(const float* values, const float* importance, std::byte* block);
void nvfp4(const float* values, const float* importance, std::byte* block);
void tq1_0(const float* values, const float* importance, std::byte* block);
void tq2_0(const float* values, const float* importance, std::byte* block);
void q1_0(const float* values, const float* importance, std::byte* block);
void q2_0(const float* values, const float* importance, std::byte* block);

inline void write_half(std::byte* to, float value) {
  const uint16_t half = float_to_half(value);
  std::memcpy(to, &half, 2);
}

inline float read_half(const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  return half_to_float(half);
}

inline float inverse(float value) {
  return value != 0 ? 1 / value : 0;
}

// Rounds to the nearest integer, ties to even. Much faster than std::round. Valid for absolute values below
// 2^22.
inline int nearest(float value) {
  return static_cast<int>(value + 12582912.0f - 12582912.0f);
}

inline int clamped(float value, int low, int high) {
  return std::clamp(nearest(value), low, high);
}

// The value with the largest absolute value, with its sign.
inline float largest(const float* values, int count) {
  float most = 0;
  for (int i = 0; i < count; ++i) {
    if (std::abs(values[i]) > std::abs(most)) most = values[i];
  }
  return most;
}

// The scale with which numbers approximate the values best, in squared errors by weight. Tried are those that
// `inverse_of` gives for steps from `first` to before `end`; `number_of` rounds a value over the scale.
template <class InverseOf, class NumberOf, class WeightOf>
float best_scale(const float* values, int count, int first, int end, InverseOf inverse_of, NumberOf number_of,
                 WeightOf weight_of) {
  float best = 0, most_explained = 0;
  for (int step = first; step < end; ++step) {
    const float per = inverse_of(static_cast<float>(step));
    float xn = 0, nn = 0;
    for (int i = 0; i < count; ++i) {
      const float number = number_of(values[i] * per);
      const float weight = weight_of(i);
      xn += weight * values[i] * number;
      nn += weight * number * number;
    }
    if (nn > 0 && xn * xn > most_explained * nn) {
      most_explained = xn * xn / nn;
      best = xn / nn;
    }
  }
  return best;
}

} // namespace pumice::encode
