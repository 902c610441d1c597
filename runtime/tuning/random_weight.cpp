#include "tuning/random_weight.h"

#include <cstring>

#include "io/quant_run.h"

namespace pumice {

namespace {

void make_sane(TensorType type, std::byte* block, float a, float b) {
  const auto half = [&](size_t at, float value) {
    const uint16_t bits = type == TensorType::bf16 ? float_to_bf16(value) : float_to_half(value);
    std::memcpy(block + at, &bits, 2);
  };
  const QuantFormat* format = find_quant_format(type);
  if (!format) {
    if (type == TensorType::f32)
      std::memcpy(block, &a, 4);
    else
      half(0, a);
    return;
  }
  if (format->scales == QuantScales::exponent) {
    block[format->scale_at] = static_cast<std::byte>(120 + static_cast<int>(a * 4));
    return;
  }
  switch (type) {
  case TensorType::nvfp4: // four small floats, none of them 0x7f
    for (int part = 0; part < 4; ++part)
      block[part] = static_cast<std::byte>(0x10 + part * 3 + static_cast<int>(a * 4));
    return;
  case TensorType::iq1_m: { // in the upper nibbles of four halves
    const uint16_t bits = float_to_half(a * 0.02f);
    for (int part = 0; part < 4; ++part) {
      std::byte& upper = block[49 + part * 2];
      upper = (upper & std::byte{15}) | static_cast<std::byte>((bits >> 4 * part & 15) << 4);
    }
    return;
  }
  default:
    break;
  }
  if (format->scales == QuantScales::single) {
    const float scale = a * (type == TensorType::nf4 ? 0.5f : type == TensorType::f8_e4m3 ? 0.002f : 0.02f);
    std::memcpy(block + format->scale_at, &scale, 4);
    if (type == TensorType::f8_e4m3) { // without the two that are no number
      for (int i = 4; i < 36; ++i)
        if ((block[i] & std::byte{0x7f}) == std::byte{0x7f}) block[i] ^= std::byte{1};
    }
    return;
  }
  half(format->scale_at, a * 0.02f);
  switch (format->scales) {
  case QuantScales::half_minimum:
  case QuantScales::bytes_minimum:
    half(format->scale_at + 2, b * 0.1f);
    break;
  case QuantScales::nibbles_minimum:
    half(format->scale_at + 2, b * 0.02f);
    break;
  case QuantScales::half_zero: {
    const uint16_t zero = static_cast<uint16_t>(std::to_integer<int>(block[format->scale_at + 2]) & 15);
    std::memcpy(block + format->scale_at + 2, &zero, 2);
    break;
  }
  default:
    break;
  }
}

} // namespace

float random_value(std::mt19937& random) {
  return static_cast<float>(random() >> 8) / float{1 << 23} - 1;
}

std::vector<std::byte> random_weight(TensorType type, uint32_t rows, uint32_t columns, uint32_t seed) {
  const uint32_t block_bytes = info(type).block_bytes;
  std::vector<std::byte> data(rows * row_bytes(type, columns));
  std::mt19937 bytes(seed), values(seed);
  for (std::byte& byte : data) byte = static_cast<std::byte>(bytes());
  for (size_t at = 0; at < data.size(); at += block_bytes) {
    const float a = random_value(values), b = random_value(values);
    make_sane(type, data.data() + at, a, b);
  }
  return data;
}

} // namespace pumice
