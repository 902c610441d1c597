// Types whose codes stand for the numbers of a table, and those of one or two bits.
#include "io/quantised/encode.h"

namespace pumice::encode {
namespace {

constexpr float nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

int nearest_nonlinear(float value) {
  int code = 0;
  while (code < 15 && value > (nonlinear[code] + nonlinear[code + 1]) / 2) ++code;
  return code;
}

// The scale with which the table's numbers approximate 32 values best.
float fit_nonlinear(const float* values, const float* importance) {
  const float peak = largest(values, 32);
  if (peak == 0) return 0;
  return best_scale(
      values, 32, -7, 8, [=](float step) { return (nonlinear[0] + step) / peak; },
      [](float value) { return nonlinear[nearest_nonlinear(value)]; },
      [=](int i) { return importance ? importance[i] : values[i] * values[i]; });
}

void write_nonlinear(const float* values, float scale, std::byte* to) {
  const float per = inverse(scale);
  for (int i = 0; i < 16; ++i) {
    to[i] = static_cast<std::byte>(nearest_nonlinear(values[i] * per) |
                                   nearest_nonlinear(values[i + 16] * per) << 4);
  }
}

// OCP's E2M1: a sign above the number of the size.
int nearest_e2m1(float value) {
  constexpr float sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  int code = 0;
  while (code < 7 && std::abs(value) > (sizes[code] + sizes[code + 1]) / 2) ++code;
  return code | (value < 0 && code > 0 ? 8 : 0);
}

// A float without sign, of 4 bits of exponent and 3 of mantissa, and what it stands for.
uint8_t small_float(float value) {
  if (!(value > 0)) return 0;
  int exponent;
  std::frexp(value, &exponent); // value = fraction * 2^exponent with a fraction from 1/2
  exponent = std::clamp(exponent - 1, -6, 8);
  const int mantissa = nearest(std::ldexp(value, 3 - exponent)); // 8 to 16, or less below 2^-6
  return static_cast<uint8_t>(std::min(mantissa + (exponent + 6) * 8, 126));
}
float small_number(uint8_t bits) {
  const int exponent = bits >> 3, mantissa = bits & 7;
  return std::ldexp(static_cast<float>(exponent ? mantissa + 8 : mantissa), (exponent ? exponent : 1) - 10);
}

// -1, 0 or 1 of the largest value, as 0 to 2.
int ternary(float value, float per) {
  return clamped(value * per, -1, 1) + 1;
}

} // namespace

void iq4_nl(const float* values, const float* importance, std::byte* block) {
  write_half(block, fit_nonlinear(values, importance));
  write_nonlinear(values, read_half(block), block + 2);
}

void iq4_xs(const float* values, const float* importance, std::byte* block) {
  float fitted[8];
  for (int run = 0; run < 8; ++run)
    fitted[run] = fit_nonlinear(values + run * 32, importance ? importance + run * 32 : nullptr);
  write_half(block, largest(fitted, 8) / -32);
  const float unit = read_half(block);
  std::memset(block + 2, 0, 6);
  for (int run = 0; run < 8; ++run) {
    const int scale = clamped(fitted[run] * inverse(unit), -32, 31);
    block[2 + run / 4] |= static_cast<std::byte>((scale + 32) >> 4 << run % 4 * 2);
    block[4 + run / 2] |= static_cast<std::byte>(((scale + 32) & 15) << run % 2 * 4);
    write_nonlinear(values + run * 32, unit * static_cast<float>(scale), block + 8 + run * 16);
  }
}

void mxfp4(const float* values, const float*, std::byte* block) {
  const float most = std::abs(largest(values, 32));
  int exponent = 0; // of a fraction from 1/2, so the largest number, 6, is below 2^(exponent + 2)
  if (most > 0) std::frexp(most, &exponent);
  const int stored = most > 0 ? std::clamp(exponent - 3 + 127, 0, 254) : 0;
  block[0] = static_cast<std::byte>(stored);
  const float per = std::ldexp(1.0f, 127 - stored);
  for (int i = 0; i < 16; ++i) {
    block[1 + i] =
        static_cast<std::byte>(nearest_e2m1(values[i] * per) | nearest_e2m1(values[i + 16] * per) << 4);
  }
}

void nvfp4(const float* values, const float*, std::byte* block) {
  for (int part = 0; part < 4; ++part) {
    const float* own = values + part * 16;
    const uint8_t scale = small_float(std::abs(largest(own, 16)) / 6);
    block[part] = static_cast<std::byte>(scale);
    const float per = inverse(small_number(scale));
    for (int i = 0; i < 8; ++i) {
      block[4 + part * 8 + i] =
          static_cast<std::byte>(nearest_e2m1(own[i] * per) | nearest_e2m1(own[i + 8] * per) << 4);
    }
  }
}

// As read_tq1_0() in quant_run.cpp has it.
void tq1_0(const float* values, const float*, std::byte* block) {
  const float most = std::abs(largest(values, 256)), per = inverse(most);
  const auto pack = [&](int first, int count, int step, std::byte* to) {
    int sum = 0;
    for (int i = 0; i < 5; ++i) sum = sum * 3 + (i < count ? ternary(values[first + i * step], per) : 0);
    *to = static_cast<std::byte>((sum * 256 + 242) / 243);
  };
  for (int i = 0; i < 32; ++i) pack(i, 5, 32, block + i);
  for (int i = 0; i < 16; ++i) pack(160 + i, 5, 16, block + 32 + i);
  for (int i = 0; i < 4; ++i) pack(240 + i, 4, 4, block + 48 + i);
  write_half(block + 52, most);
}

void tq2_0(const float* values, const float*, std::byte* block) {
  const float most = std::abs(largest(values, 256)), per = inverse(most);
  std::memset(block, 0, 64);
  for (int i = 0; i < 256; ++i) {
    block[i / 128 * 32 + i % 32] |= static_cast<std::byte>(ternary(values[i], per) << i / 32 % 4 * 2);
  }
  write_half(block + 64, most);
}

void q1_0(const float* values, const float*, std::byte* block) {
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += std::abs(values[i]);
  write_half(block, sum / 128);
  std::memset(block + 2, 0, 16);
  for (int i = 0; i < 128; ++i) block[2 + i / 8] |= static_cast<std::byte>((values[i] >= 0) << i % 8);
}

void q2_0(const float* values, const float*, std::byte* block) {
  const float most = std::abs(largest(values, 64)), per = inverse(most);
  write_half(block, most);
  std::memset(block + 2, 0, 16);
  for (int i = 0; i < 64; ++i)
    block[2 + i / 4] |= static_cast<std::byte>(ternary(values[i], per) << i % 4 * 2);
}

} // namespace pumice::encode
