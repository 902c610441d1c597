#include "io/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "io/quantised/encode.h"

namespace pumice {
namespace {

using namespace encode;

void encode_f32(const float* values, const float*, std::byte* block) {
  std::memcpy(block, values, 4);
}
void encode_f16(const float* values, const float*, std::byte* block) {
  write_half(block, *values);
}
void encode_bf16(const float* values, const float*, std::byte* block) {
  const uint16_t bits = float_to_bf16(*values);
  std::memcpy(block, &bits, 2);
}

void encode_q8_0(const float* values, const float*, std::byte* block) {
  const float scale = std::abs(largest(values, 32)) / 127, per = inverse(scale);
  write_half(block, scale);
  for (int i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(values[i] * per)));
  }
}

void write_nibbles(const uint8_t* codes, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

void write_fifth_bits(const uint8_t* codes, std::byte* to) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(to, &bits, 4);
}

// Symmetric codes around `zero`. Tries a few scales near the one that maps the value with the largest
// absolute value to the lowest code, and uses the scale with the smallest error, in which values count as they
// are important, or else by their size: large ones do more. Returns that scale.
float symmetric_codes(const float* values, const float* importance, int zero, uint8_t* codes) {
  const float peak = largest(values, 32);
  float best = 0, most_explained = 0;
  for (int step = -5; step <= 5 && peak != 0; ++step) {
    const float per = -(static_cast<float>(zero) + 0.18f * static_cast<float>(step)) / peak;
    float xn = 0, nn = 0;
    for (int i = 0; i < 32; ++i) {
      const float number = static_cast<float>(clamped(values[i] * per, -zero, zero - 1));
      const float weight = importance ? importance[i] : std::abs(values[i]);
      xn += weight * values[i] * number;
      nn += weight * number * number;
    }
    if (nn > 0 && xn * xn > most_explained * nn) {
      most_explained = xn * xn / nn;
      best = xn / nn;
    }
  }
  const float per = inverse(half_to_float(float_to_half(best)));
  for (int i = 0; i < 32; ++i)
    codes[i] = static_cast<uint8_t>(clamped(values[i] * per, -zero, zero - 1) + zero);
  return best;
}

// Maps the lowest value to code 0 and the highest to `max_code`. Returns the scale.
float spread_codes(const float* values, int max_code, uint8_t* codes, float& lowest) {
  const auto [low, high] = std::minmax_element(values, values + 32);
  const float scale = (*high - *low) / static_cast<float>(max_code), per = inverse(scale);
  lowest = *low;
  for (int i = 0; i < 32; ++i) {
    const int code = static_cast<int>((values[i] - lowest) * per + 0.5f);
    codes[i] = static_cast<uint8_t>(std::clamp(code, 0, max_code));
  }
  return scale;
}

void encode_q4_0(const float* values, const float* importance, std::byte* block) {
  uint8_t codes[32];
  write_half(block, symmetric_codes(values, importance, 8, codes));
  write_nibbles(codes, block + 2);
}

void encode_q4_1(const float* values, const float*, std::byte* block) {
  uint8_t codes[32];
  float lowest;
  write_half(block, spread_codes(values, 15, codes, lowest));
  write_half(block + 2, lowest);
  write_nibbles(codes, block + 4);
}

void encode_q5_0(const float* values, const float* importance, std::byte* block) {
  uint8_t codes[32];
  write_half(block, symmetric_codes(values, importance, 16, codes));
  write_fifth_bits(codes, block + 2);
  write_nibbles(codes, block + 6);
}

void encode_q5_1(const float* values, const float*, std::byte* block) {
  uint8_t codes[32];
  float lowest;
  write_half(block, spread_codes(values, 31, codes, lowest));
  write_half(block + 2, lowest);
  write_fifth_bits(codes, block + 4);
  write_nibbles(codes, block + 8);
}

struct Encoder {
  TensorType type;
  Encode encode;
};

// IQ1 to IQ3 are not among them: finding the points of a grid is a search of its own.
constexpr Encoder encoders[] = {
    {TensorType::f32, encode_f32},   {TensorType::f16, encode_f16},   {TensorType::bf16, encode_bf16},
    {TensorType::q8_0, encode_q8_0}, {TensorType::q4_0, encode_q4_0}, {TensorType::q4_1, encode_q4_1},
    {TensorType::q5_0, encode_q5_0}, {TensorType::q5_1, encode_q5_1}, {TensorType::q2_k, q2_k},
    {TensorType::q3_k, q3_k},        {TensorType::q4_k, q4_k},        {TensorType::q5_k, q5_k},
    {TensorType::q6_k, q6_k},        {TensorType::iq4_nl, iq4_nl},    {TensorType::iq4_xs, iq4_xs},
    {TensorType::mxfp4, mxfp4},      {TensorType::nvfp4, nvfp4},      {TensorType::tq1_0, tq1_0},
    {TensorType::tq2_0, tq2_0},      {TensorType::q1_0, q1_0},        {TensorType::q2_0, q2_0},
};

Encode find_encode(TensorType type) {
  const auto* found = std::ranges::find(encoders, type, &Encoder::type);
  return found == std::end(encoders) ? nullptr : found->encode;
}

} // namespace

bool can_quantize(TensorType type) {
  return find_encode(type) != nullptr;
}

std::string quantizable_type_names() {
  std::string names;
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (can_quantize(entry.type)) names.append(names.empty() ? "" : ", ").append(entry.name);
  }
  return names;
}

void quantize_row(TensorType type, std::span<const float> row, std::byte* out, const float* importance) {
  const TensorTypeInfo& entry = info(type);
  const Encode encode = find_encode(type);
  for (size_t i = 0; i + entry.block_size <= row.size(); i += entry.block_size, out += entry.block_bytes)
    encode(row.data() + i, importance ? importance + i : nullptr, out);
}

TensorType quantized_type(TensorType source, std::optional<TensorType> weights) {
  return weights && info(source).block_size == 1 ? *weights : source;
}

} // namespace pumice
