// K types: blocks of 256 weights in parts of 16 or 32, whose scales have a scale of their own.
#include "io/quantised/encode.h"

namespace pumice::encode {
namespace {

// Approximates values as scale * code - minimum, with codes from 0 on. Neither scale nor minimum is negative.
struct Line {
  float scale = 0;
  float minimum = 0;
};

// Tries several ranges of codes, fits a line to the codes that each gives, and returns the line with the
// smallest error. Larger values have more weight, because they affect a matrix product more. At most 32
// values.
Line fit_line(const float* values, const float* importance, int count, int max_code) {
  const float low = std::min(0.0f, *std::min_element(values, values + count));
  const float high = *std::max_element(values, values + count);
  if (!(high > low)) return {0, -low};
  float squares = 0;
  for (int i = 0; i < count; ++i) squares += values[i] * values[i];
  const float typical = std::sqrt(squares / static_cast<float>(count));
  float weights[32];
  for (int i = 0; i < count; ++i)
    weights[i] = (typical + std::abs(values[i])) * (importance ? importance[i] : 1);

  Line best;
  float least = INFINITY;
  for (int step = 0; step < 8; ++step) {
    const float width = static_cast<float>(max_code) - 1.2f + 0.3f * static_cast<float>(step);
    const float per = width / (high - low);
    float sw = 0, sc = 0, scc = 0, sx = 0, sxc = 0, codes[32];
    for (int i = 0; i < count; ++i) {
      const float code = static_cast<float>(clamped((values[i] - low) * per, 0, max_code));
      const float weight = weights[i];
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
    for (int i = 0; i < count; ++i) {
      const float difference = line.scale * codes[i] - line.minimum - values[i];
      error += weights[i] * difference * difference;
    }
    if (error < least) {
      least = error;
      best = line;
    }
  }
  return best;
}

// The lines of a block's parts, with scales and minimums that are whole multiples of the block's, which are
// written behind each other at `halves`.
template <int parts>
struct Lines {
  Line lines[parts];
  uint8_t scales[parts], minimums[parts];
  float unit, minimum_unit;

  Lines(const float* values, const float* importance, int max_code, int max_scale, std::byte* halves) {
    constexpr int count = 256 / parts;
    const float most = static_cast<float>(max_scale);
    float most_scale = 0, most_minimum = 0;
    for (int part = 0; part < parts; ++part) {
      const int at = part * count;
      lines[part] = fit_line(values + at, importance ? importance + at : nullptr, count, max_code);
      most_scale = std::max(most_scale, lines[part].scale);
      most_minimum = std::max(most_minimum, lines[part].minimum);
    }
    write_half(halves, most_scale / most);
    write_half(halves + 2, most_minimum / most);
    unit = read_half(halves);
    minimum_unit = read_half(halves + 2);
    for (int part = 0; part < parts; ++part) {
      scales[part] = static_cast<uint8_t>(clamped(lines[part].scale * inverse(unit), 0, max_scale));
      minimums[part] =
          static_cast<uint8_t>(clamped(lines[part].minimum * inverse(minimum_unit), 0, max_scale));
    }
  }

  int code(float value, int part, int max_code) const {
    return clamped((value + minimum_unit * minimums[part]) * inverse(unit * scales[part]), 0, max_code);
  }
};

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

// The scale with which integers from -zero to zero - 1 approximate 16 values best. Larger values have more
// weight. `spread`: how far around zero the largest value's code is looked for.
float fit_scale(const float* values, const float* importance, int zero, float spread) {
  const float most = largest(values, 16);
  if (most == 0) return 0;
  return best_scale(
      values, 16, -4, 4, [=](float step) { return -(static_cast<float>(zero) + spread * step) / most; },
      [=](float value) { return static_cast<float>(clamped(value, -zero, zero - 1)); },
      [=](int i) { return values[i] * values[i] * (importance ? importance[i] : 1); });
}

void fit_parts(const float* values, const float* importance, int zero, float spread, float* fitted) {
  for (int part = 0; part < 16; ++part) {
    fitted[part] = fit_scale(values + part * 16, importance ? importance + part * 16 : nullptr, zero, spread);
  }
}

// Two bits of a code, of weight `i` of a block: four runs of 32 share 32 bytes.
void put_pair_of_bits(std::byte* bytes, int i, int code) {
  bytes[i / 128 * 32 + i % 32] |= static_cast<std::byte>(code << i / 32 % 4 * 2);
}

} // namespace

void q2_k(const float* values, const float* importance, std::byte* block) {
  const Lines<16> lines(values, importance, 3, 15, block + 80);
  std::memset(block, 0, 80);
  for (int part = 0; part < 16; ++part) {
    block[part] = static_cast<std::byte>(lines.scales[part] | lines.minimums[part] << 4);
  }
  for (int i = 0; i < 256; ++i) put_pair_of_bits(block + 16, i, lines.code(values[i], i / 16, 3));
}

void q3_k(const float* values, const float* importance, std::byte* block) {
  float fitted[16];
  fit_parts(values, importance, 4, 0.2f, fitted);
  write_half(block + 108, largest(fitted, 16) / -32);
  const float unit = read_half(block + 108);
  std::memset(block, 0, 108);
  for (int part = 0; part < 16; ++part) {
    const int scale = clamped(fitted[part] * inverse(unit), -32, 31);
    const float per = inverse(unit * static_cast<float>(scale));
    block[96 + part % 8] |= static_cast<std::byte>(((scale + 32) & 15) << part / 8 * 4);
    block[104 + part % 4] |= static_cast<std::byte>((scale + 32) >> 4 << part / 4 * 2);
    for (int i = part * 16; i < part * 16 + 16; ++i) {
      const int code = clamped(values[i] * per, -4, 3) + 4;
      put_pair_of_bits(block + 32, i, code & 3);
      block[i % 32] |= static_cast<std::byte>(code >> 2 << i / 32);
    }
  }
}

void q4_k(const float* values, const float* importance, std::byte* block) {
  const Lines<8> lines(values, importance, 15, 63, block);
  write_k_scales(lines.scales, lines.minimums, block + 4);
  std::memset(block + 16, 0, 128);
  for (int i = 0; i < 256; ++i) {
    block[16 + i / 64 * 32 + i % 32] |=
        static_cast<std::byte>(lines.code(values[i], i / 32, 15) << i / 32 % 2 * 4);
  }
}

void q5_k(const float* values, const float* importance, std::byte* block) {
  const Lines<8> lines(values, importance, 31, 63, block);
  write_k_scales(lines.scales, lines.minimums, block + 4);
  std::memset(block + 16, 0, 160);
  for (int i = 0; i < 256; ++i) {
    const int code = lines.code(values[i], i / 32, 31);
    block[48 + i / 64 * 32 + i % 32] |= static_cast<std::byte>((code & 15) << i / 32 % 2 * 4);
    block[16 + i % 32] |= static_cast<std::byte>(code >> 4 << i / 32);
  }
}

void q6_k(const float* values, const float* importance, std::byte* block) {
  float fitted[16];
  fit_parts(values, importance, 32, 0.5f, fitted);
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

} // namespace pumice::encode
