#include "io/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace pumice {
namespace {

using Encode = void (*)(const float* values, std::byte* block);

void write_half(std::byte* to, float value) {
  const uint16_t half = float_to_half(value);
  std::memcpy(to, &half, 2);
}

float read_half(const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  return half_to_float(half);
}

float inverse(float value) {
  return value != 0 ? 1 / value : 0;
}

// Rounds to the nearest integer, ties to even. Much faster than std::round. Valid for absolute values below
// 2^22.
int nearest(float value) {
  return static_cast<int>(value + 12582912.0f - 12582912.0f);
}

int clamped(float value, int low, int high) {
  return std::clamp(nearest(value), low, high);
}

// The value with the largest absolute value, with its sign.
float largest(const float* values, int count) {
  float most = 0;
  for (int i = 0; i < count; ++i) {
    if (std::abs(values[i]) > std::abs(most)) most = values[i];
  }
  return most;
}

void encode_f32(const float* values, std::byte* block) {
  std::memcpy(block, values, 4);
}
void encode_f16(const float* values, std::byte* block) {
  write_half(block, *values);
}
void encode_bf16(const float* values, std::byte* block) {
  const uint16_t bits = float_to_bf16(*values);
  std::memcpy(block, &bits, 2);
}

void encode_q8_0(const float* values, std::byte* block) {
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
// absolute value to the lowest code, and uses the scale with the smallest error. Returns that scale.
float symmetric_codes(const float* values, int zero, uint8_t* codes) {
  const float peak = largest(values, 32);
  float best = 0, most_explained = 0;
  for (int step = -5; step <= 5 && peak != 0; ++step) {
    const float per = -(static_cast<float>(zero) + 0.18f * static_cast<float>(step)) / peak;
    float xn = 0, nn = 0;
    for (int i = 0; i < 32; ++i) {
      const float number = static_cast<float>(clamped(values[i] * per, -zero, zero - 1));
      xn += values[i] * number;
      nn += number * number;
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

void encode_q4_0(const float* values, std::byte* block) {
  uint8_t codes[32];
  write_half(block, symmetric_codes(values, 8, codes));
  write_nibbles(codes, block + 2);
}

void encode_q4_1(const float* values, std::byte* block) {
  uint8_t codes[32];
  float lowest;
  write_half(block, spread_codes(values, 15, codes, lowest));
  write_half(block + 2, lowest);
  write_nibbles(codes, block + 4);
}

void encode_q5_0(const float* values, std::byte* block) {
  uint8_t codes[32];
  write_half(block, symmetric_codes(values, 16, codes));
  write_fifth_bits(codes, block + 2);
  write_nibbles(codes, block + 6);
}

void encode_q5_1(const float* values, std::byte* block) {
  uint8_t codes[32];
  float lowest;
  write_half(block, spread_codes(values, 31, codes, lowest));
  write_half(block + 2, lowest);
  write_fifth_bits(codes, block + 4);
  write_nibbles(codes, block + 8);
}

// Approximates values as scale * code - minimum, with codes from 0 to 15. Neither scale nor minimum is
// negative.
struct Line {
  float scale = 0;
  float minimum = 0;
};

// Tries several ranges of codes, fits a line to the codes that each gives, and returns the line with the
// smallest error. Larger values have more weight, because they affect a matrix product more.
Line fit_line(const float* values) {
  const float low = std::min(0.0f, *std::min_element(values, values + 32));
  const float high = *std::max_element(values, values + 32);
  if (!(high > low)) return {0, -low};
  float squares = 0;
  for (int i = 0; i < 32; ++i) squares += values[i] * values[i];
  const float typical = std::sqrt(squares / 32);

  Line best;
  float least = INFINITY;
  for (float width = 13.8f; width < 16.0f; width += 0.3f) {
    const float per = width / (high - low);
    float sw = 0, sc = 0, scc = 0, sx = 0, sxc = 0, codes[32];
    for (int i = 0; i < 32; ++i) {
      const float code = static_cast<float>(clamped((values[i] - low) * per, 0, 15));
      const float weight = typical + std::abs(values[i]);
      codes[i] = code;
      sw += weight;
      sc += weight * code;
      scc += weight * code * code;
      sx += weight * values[i];
      sxc += weight * values[i] * code;
    }
    const float determinant = sw * scc - sc * sc;
    if (!(determinant > 0)) continue;
    Line line = {(sw * sxc - sx * sc) / determinant, (sc * sxc - scc * sx) / determinant};
    if (line.minimum < 0) line = {sxc / scc, 0};
    float error = 0;
    for (int i = 0; i < 32; ++i) {
      const float difference = line.scale * codes[i] - line.minimum - values[i];
      error += (typical + std::abs(values[i])) * difference * difference;
    }
    if (error < least) {
      least = error;
      best = line;
    }
  }
  return best;
}

// Packs them as read_k_scales() in quant_run.cpp unpacks them.
void write_k_scales(const uint8_t* scales, const uint8_t* minimums, std::byte* to) {
  uint8_t bytes[12] = {};
  for (int i = 0; i < 4; ++i) {
    bytes[i] = static_cast<uint8_t>(scales[i] | scales[i + 4] >> 4 << 6);
    bytes[i + 4] = static_cast<uint8_t>(minimums[i] | minimums[i + 4] >> 4 << 6);
    bytes[i + 8] = static_cast<uint8_t>((scales[i + 4] & 15) | (minimums[i + 4] & 15) << 4);
  }
  std::memcpy(to, bytes, 12);
}

void encode_q4_k(const float* values, std::byte* block) {
  Line lines[8];
  float most_scale = 0, most_minimum = 0;
  for (int run = 0; run < 8; ++run) {
    lines[run] = fit_line(values + run * 32);
    most_scale = std::max(most_scale, lines[run].scale);
    most_minimum = std::max(most_minimum, lines[run].minimum);
  }
  write_half(block, most_scale / 63);
  write_half(block + 2, most_minimum / 63);
  const float unit = read_half(block), minimum_unit = read_half(block + 2);

  uint8_t scales[8], minimums[8];
  for (int run = 0; run < 8; ++run) {
    scales[run] = static_cast<uint8_t>(clamped(lines[run].scale * inverse(unit), 0, 63));
    minimums[run] = static_cast<uint8_t>(clamped(lines[run].minimum * inverse(minimum_unit), 0, 63));
    const float per = inverse(unit * scales[run]), minimum = minimum_unit * minimums[run];
    std::byte* nibbles = block + 16 + run / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = clamped((values[run * 32 + i] + minimum) * per, 0, 15);
      nibbles[i] = static_cast<std::byte>(run % 2 ? std::to_integer<int>(nibbles[i]) | code << 4 : code);
    }
  }
  write_k_scales(scales, minimums, block + 4);
}

// The scale with which integers from -32 to 31 approximate 16 values best. Larger values have more weight.
float fit_scale(const float* values) {
  const float most = largest(values, 16);
  if (most == 0) return 0;
  float best = 0, most_explained = 0;
  for (float width = 30.0f; width < 34.0f; width += 0.5f) {
    const float per = -width / most;
    float xn = 0, nn = 0;
    for (int i = 0; i < 16; ++i) {
      const float number = static_cast<float>(clamped(values[i] * per, -32, 31));
      const float weight = values[i] * values[i];
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

void encode_q6_k(const float* values, std::byte* block) {
  float fitted[16];
  for (int part = 0; part < 16; ++part) fitted[part] = fit_scale(values + part * 16);
  write_half(block + 208, largest(fitted, 16) / -128);
  const float unit = read_half(block + 208);
  std::memset(block, 0, 192);
  for (int part = 0; part < 16; ++part) {
    const int scale = clamped(fitted[part] * inverse(unit), -128, 127);
    block[192 + part] = static_cast<std::byte>(static_cast<int8_t>(scale));
    const float per = inverse(unit * static_cast<float>(scale));
    const int half = part / 8, quarter = part / 2 % 4;
    for (int i = 0; i < 16; ++i) {
      const int code = clamped(values[part * 16 + i] * per, -32, 31) + 32, at = part % 2 * 16 + i;
      block[half * 64 + quarter % 2 * 32 + at] |= static_cast<std::byte>((code & 15) << quarter / 2 * 4);
      block[128 + half * 32 + at] |= static_cast<std::byte>(code >> 4 << quarter * 2);
    }
  }
}

Encode find_encode(TensorType type) {
  switch (type) {
  case TensorType::f32:
    return encode_f32;
  case TensorType::f16:
    return encode_f16;
  case TensorType::bf16:
    return encode_bf16;
  case TensorType::q8_0:
    return encode_q8_0;
  case TensorType::q4_0:
    return encode_q4_0;
  case TensorType::q4_1:
    return encode_q4_1;
  case TensorType::q5_0:
    return encode_q5_0;
  case TensorType::q5_1:
    return encode_q5_1;
  case TensorType::q4_k:
    return encode_q4_k;
  case TensorType::q6_k:
    return encode_q6_k;
  default:
    return nullptr;
  }
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

void quantize_row(TensorType type, std::span<const float> row, std::byte* out) {
  const TensorTypeInfo& entry = info(type);
  const Encode encode = find_encode(type);
  for (size_t i = 0; i + entry.block_size <= row.size(); i += entry.block_size, out += entry.block_bytes)
    encode(row.data() + i, out);
}

TensorType quantized_type(TensorType source, std::optional<TensorType> weights) {
  return weights && info(source).block_size == 1 ? *weights : source;
}

} // namespace pumice
