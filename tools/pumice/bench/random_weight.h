#pragma once

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "io/tensor_type.h"

// Bytes of weights for tests and timings of kernels: any bytes are right for quantised blocks but for their
// scales, and plain numbers are made from floats.

inline void make_sane(pumice::TensorType type, std::byte* block, float a, float b) {
  using enum pumice::TensorType;
  const auto half = [&](size_t at, float value) {
    const uint16_t bits = type == bf16 ? pumice::float_to_bf16(value) : pumice::float_to_half(value);
    std::memcpy(block + at, &bits, 2);
  };
  switch (type) {
  case f32:
    std::memcpy(block, &a, 4);
    break;
  case f16:
  case bf16:
    half(0, a);
    break;
  case q8_0:
  case q4_0:
  case q5_0:
  case iq4_nl:
  case iq4_xs:
    half(0, a * 0.02f);
    break;
  case q4_1:
  case q5_1:
  case q4_k:
  case q5_k:
    half(0, a * 0.02f);
    half(2, b * 0.1f);
    break;
  case q2_k:
    half(80, a * 0.02f);
    half(82, b * 0.02f);
    break;
  case q3_k:
    half(108, a * 0.02f);
    break;
  case q6_k:
    half(208, a * 0.02f);
    break;
  case mxfp4:
    block[0] = static_cast<std::byte>(120 + static_cast<int>(a * 4));
    break;
  }
}

// Evenly from -1 to 1; the same with any library.
inline float random_value(std::mt19937& random) {
  return static_cast<float>(random() >> 8) / float{1 << 23} - 1;
}

// A matrix as a file has it.
inline std::vector<std::byte> random_weight(pumice::TensorType type, uint32_t rows, uint32_t columns,
                                            uint32_t seed) {
  const uint32_t block_bytes = pumice::info(type).block_bytes;
  std::vector<std::byte> data(rows * pumice::row_bytes(type, columns));
  std::mt19937 bytes(seed), values(seed);
  for (std::byte& byte : data) byte = static_cast<std::byte>(bytes());
  for (size_t at = 0; at < data.size(); at += block_bytes) {
    const float a = random_value(values), b = random_value(values);
    make_sane(type, data.data() + at, a, b);
  }
  return data;
}
