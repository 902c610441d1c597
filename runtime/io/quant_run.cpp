#include "io/quant_run.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "io/quantised/quant_grids.h"

namespace pumice {
namespace {

uint8_t byte_at(const std::byte* bytes, size_t at) {
  return std::to_integer<uint8_t>(bytes[at]);
}

uint16_t half_at(const std::byte* bytes, size_t at) {
  uint16_t half;
  std::memcpy(&half, bytes + at, 2);
  return half;
}

// 16 bytes: the low nibbles are codes 0 to 15, the high ones 16 to 31.
void read_nibbles(const std::byte* bytes, QuantRun& out) {
  for (int i = 0; i < 16; ++i) {
    out.codes[i] = byte_at(bytes, i) & 15;
    out.codes[i + 16] = byte_at(bytes, i) >> 4;
  }
}

// 32 bits: bit i is the fifth of code i.
void read_fifth_bits(const std::byte* bytes, QuantRun& out) {
  uint32_t bits;
  std::memcpy(&bits, bytes, 4);
  for (int i = 0; i < 32; ++i) out.codes[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

// What follows takes codes out of blocks, and the scales of 32 weights where those are not the block's.

// A half scale, then 32 signed bytes.
void read_q8_0(const std::byte* block, uint32_t, QuantRun& out) {
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(block, 2 + i) ^ 0x80;
}

// A half scale, then nibbles.
void read_q4_0(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 2, out);
}

// A half scale, a half to be added, nibbles.
void read_q4_1(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 4, out);
}

// As Q4_0 and Q4_1, with the codes' fifth bits before the nibbles.
void read_q5_0(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 6, out);
  read_fifth_bits(block + 2, out);
}

void read_q5_1(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 8, out);
  read_fifth_bits(block + 4, out);
}

// Blocks of 256. Two bits of the codes of four runs lie in the same 32 bytes.
void read_pairs_of_bits(const std::byte* bytes, uint32_t run, QuantRun& out) {
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(bytes, run / 4 * 32 + i) >> run % 4 * 2 & 3;
}

// 16 bytes of a 4-bit scale and, above it, a 4-bit minimum for 16 weights each; 64 bytes of codes; the
// halves.
void read_q2_k(const std::byte* block, uint32_t run, QuantRun& out) {
  read_pairs_of_bits(block + 16, run, out);
  for (int part = 0; part < 2; ++part) {
    const uint8_t both = byte_at(block, run * 2 + part);
    out.scales[part] = both & 15;
    out.minimums[part] = both >> 4;
  }
}

// 32 bytes with the codes' third bit, a bit for each run; 64 bytes of their low two; 12 bytes of 6-bit
// scales, offset by 32: the low four bits of scales 0 to 7 and 8 to 15 in the nibbles of the first eight
// bytes, the upper two of scales i, i + 4, i + 8, i + 12 in byte 8 + i; the half.
void read_q3_k(const std::byte* block, uint32_t run, QuantRun& out) {
  read_pairs_of_bits(block + 32, run, out);
  for (int i = 0; i < 32; ++i) out.codes[i] |= static_cast<uint8_t>((byte_at(block, i) >> run & 1) << 2);
  for (uint32_t part = 0; part < 2; ++part) {
    const uint32_t i = run * 2 + part;
    const int low = byte_at(block, 96 + i % 8) >> i / 8 * 4 & 15;
    const int high = byte_at(block, 96 + 8 + i % 4) >> i / 4 * 2 & 3;
    out.scales[part] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

// The halves; 12 bytes of 6-bit scales and minimums: those of runs 0 to 3 in bytes 0 to 3 and 4 to 7, whose
// upper two bits are the upper bits of runs 4 to 7; bytes 8 to 11 have their lower four, the scale's and
// above them the minimum's.
void read_k_scales(const std::byte* block, uint32_t run, QuantRun& out) {
  const std::byte* bytes = block + 4;
  uint32_t scale, minimum;
  if (run < 4) {
    scale = byte_at(bytes, run) & 63;
    minimum = byte_at(bytes, run + 4) & 63;
  } else {
    const uint32_t low = byte_at(bytes, run + 4);
    scale = (low & 15) | byte_at(bytes, run - 4) >> 6 << 4;
    minimum = low >> 4 | byte_at(bytes, run) >> 6 << 4;
  }
  out.scales[0] = out.scales[1] = static_cast<int8_t>(scale);
  out.minimums[0] = out.minimums[1] = static_cast<uint8_t>(minimum);
}

// Nibbles of two runs lie in the same 32 bytes.
void read_paired_nibbles(const std::byte* bytes, uint32_t run, QuantRun& out) {
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(bytes, run / 2 * 32 + i) >> run % 2 * 4 & 15;
}

void read_q4_k(const std::byte* block, uint32_t run, QuantRun& out) {
  read_k_scales(block, run, out);
  read_paired_nibbles(block + 16, run, out);
}

// As Q4_K, with 32 bytes of the codes' fifth bits, a bit for each run, before the nibbles.
void read_q5_k(const std::byte* block, uint32_t run, QuantRun& out) {
  read_k_scales(block, run, out);
  read_paired_nibbles(block + 48, run, out);
  for (int i = 0; i < 32; ++i) out.codes[i] |= static_cast<uint8_t>((byte_at(block, 16 + i) >> run & 1) << 4);
}

// Each half of the block has 64 bytes of nibbles: the low ones are runs 0 and 1, the high ones 2 and 3. Then
// the upper two bits of all codes, 16 signed bytes that scale 16 weights each, and the half.
void read_q6_k(const std::byte* block, uint32_t run, QuantRun& out) {
  const uint32_t half = run / 4, quarter = run % 4;
  const std::byte* low = block + half * 64 + quarter % 2 * 32;
  const std::byte* high = block + 128 + half * 32;
  for (int i = 0; i < 32; ++i) {
    out.codes[i] = static_cast<uint8_t>((byte_at(low, i) >> quarter / 2 * 4 & 15) |
                                        (byte_at(high, i) >> quarter * 2 & 3) << 4);
  }
  for (uint32_t part = 0; part < 2; ++part) {
    out.scales[part] = static_cast<int8_t>(byte_at(block, 192 + run * 2 + part));
  }
}

void read_iq4_nl(const std::byte* block, uint32_t run, QuantRun& out) {
  read_q4_0(block, run, out);
}

// The half, the upper two bits of each run's 6-bit scale, their lower four, then each run's nibbles.
void read_iq4_xs(const std::byte* block, uint32_t run, QuantRun& out) {
  const int low = byte_at(block, 4 + run / 2) >> run % 2 * 4 & 15;
  const int high = half_at(block, 2) >> run * 2 & 3;
  out.scales[0] = out.scales[1] = static_cast<int8_t>((low | high << 4) - 32);
  read_nibbles(block + 8 + run * 16, out);
}

// An exponent, then nibbles.
void read_mxfp4(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 1, out);
}

// Four scales of 16 weights each, then nibbles of them, 8 bytes each. 0x7f is no number, and stands for 0.
void read_nvfp4(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t part = 0; part < 2; ++part) {
    const uint8_t scale = byte_at(block, run * 2 + part) & 0x7f;
    out.scales[part] = static_cast<int8_t>(scale == 0x7f ? 0 : scale);
    for (uint32_t i = 0; i < 8; ++i) {
      const uint8_t both = byte_at(block, 4 + (run * 2 + part) * 8 + i);
      out.codes[part * 16 + i] = both & 15;
      out.codes[part * 16 + 8 + i] = both >> 4;
    }
  }
}

uint32_t word_at(const std::byte* bytes, size_t at) {
  return half_at(bytes, at) | uint32_t{half_at(bytes, at + 2)} << 16;
}

void set_scale(QuantRun& out, uint32_t part, uint32_t scale) {
  out.scales[part] = static_cast<int8_t>(scale);
}

// Types of grids (io/quantised/quant_grids.h): points of eight or of four weights, their signs, and scales of
// 4 bits that count odd numbers. A code is the size's number, with the sign above it.
void put_point(uint32_t point, uint32_t bits, uint32_t count, uint8_t* codes) {
  for (uint32_t i = 0; i < count; ++i)
    codes[i] = static_cast<uint8_t>(point >> bits * i & ((1u << bits) - 1));
}
void put_signs(uint32_t signs, uint32_t bit, uint8_t* codes) {
  for (uint32_t i = 0; i < 8; ++i) codes[i] |= static_cast<uint8_t>((signs >> i & 1) << bit);
}
// Of eight signs, an even number is negative; the eighth follows from the seven that are stored.
uint32_t eight_signs(uint32_t seven) {
  seven &= 127;
  return seven | (std::popcount(seven) & 1) << 7;
}
// Of two parts of a run, or of two runs.
uint32_t odd_scale(uint8_t both, uint32_t which) {
  return 2 * (both >> 4 * which & 15) + 1u;
}

// Two dwords for each run: four points; four groups of signs and the scale.
void read_iq2_xxs(const std::byte* block, uint32_t run, QuantRun& out) {
  const uint32_t signs = word_at(block, 2 + run * 8 + 4);
  for (uint32_t group = 0; group < 4; ++group) {
    put_point(iq2_xxs_grid[byte_at(block, 2 + run * 8 + group)], 2, 8, out.codes + group * 8);
    put_signs(eight_signs(signs >> 7 * group), 2, out.codes + group * 8);
  }
  set_scale(out, 0, 2 * (signs >> 28) + 1);
}

// Nine bits of a point and seven signs for each eight weights, then the scales of 16 each.
void read_iq2_xs(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t group = 0; group < 4; ++group) {
    const uint32_t both = half_at(block, 2 + run * 8 + group * 2);
    put_point(iq2_xs_grid[both & 511], 2, 8, out.codes + group * 8);
    put_signs(eight_signs(both >> 9), 2, out.codes + group * 8);
  }
  for (uint32_t part = 0; part < 2; ++part) set_scale(out, part, odd_scale(byte_at(block, 66 + run), part));
}

// The points' lower bytes, all signs, the points' two upper bits, and the scales.
void read_iq2_s(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t group = 0; group < 4; ++group) {
    const uint32_t upper = byte_at(block, 66 + run) >> 2 * group & 3;
    put_point(iq2_s_grid[byte_at(block, 2 + run * 4 + group) | upper << 8], 2, 8, out.codes + group * 8);
    put_signs(byte_at(block, 34 + run * 4 + group), 2, out.codes + group * 8);
  }
  for (uint32_t part = 0; part < 2; ++part) set_scale(out, part, odd_scale(byte_at(block, 74 + run), part));
}

// Points of four weights, then for each run a dword of signs and the scale.
void read_iq3_xxs(const std::byte* block, uint32_t run, QuantRun& out) {
  const uint32_t signs = word_at(block, 66 + run * 4);
  for (uint32_t group = 0; group < 8; ++group) {
    put_point(iq3_xxs_grid[byte_at(block, 2 + run * 8 + group)], 4, 4, out.codes + group * 4);
  }
  for (uint32_t group = 0; group < 4; ++group) {
    put_signs(eight_signs(signs >> 7 * group), 3, out.codes + group * 8);
  }
  set_scale(out, 0, 2 * (signs >> 28) + 1);
}

// The points' lower bytes, their ninth bits, all signs, and scales of 32 weights. Codes go up with the
// numbers.
void read_iq3_s(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t group = 0; group < 8; ++group) {
    const uint32_t upper = byte_at(block, 66 + run) >> group & 1;
    put_point(iq3_s_grid[byte_at(block, 2 + run * 8 + group) | upper << 8], 4, 4, out.codes + group * 4);
  }
  for (uint32_t i = 0; i < 32; ++i) {
    const bool negative = byte_at(block, 74 + run * 4 + i / 8) >> i % 8 & 1;
    out.codes[i] = static_cast<uint8_t>(negative ? 7 - out.codes[i] : 8 + out.codes[i]);
  }
  set_scale(out, 0, odd_scale(byte_at(block, 106 + run / 2), run % 2));
}

// The points' lower bytes; for each run three upper bits of four points, the scale's three, and the sign of
// the eighth of it that is added to all numbers. Codes are 1 more than the grid's numbers.
void read_iq1_s(const std::byte* block, uint32_t run, QuantRun& out) {
  const uint32_t high = half_at(block, 34 + run * 2), scale = 2 * (high >> 12 & 7) + 1;
  for (uint32_t group = 0; group < 4; ++group) {
    const uint32_t upper = high >> 3 * group & 7;
    put_point(iq1_grid[byte_at(block, 2 + run * 4 + group) | upper << 8], 2, 8, out.codes + group * 8);
  }
  out.minimum = static_cast<uint16_t>(out.scale);
  set_scale(out, 0, scale);
  out.minimums[0] = static_cast<uint8_t>(scale * (high & 0x8000 ? 9 : 7));
}

// The points' lower bytes; a nibble for each eight weights: a point's three upper bits, and the sign of the
// eighth; four halves with the scales' three bits, whose upper nibbles are the scale of all.
void read_iq1_m(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t group = 0; group < 4; ++group) {
    const uint32_t high = byte_at(block, 32 + run * 2 + group / 2) >> 4 * (group % 2) & 15;
    put_point(iq1_grid[byte_at(block, run * 4 + group) | (high & 7) << 8], 2, 8, out.codes + group * 8);
    put_signs(high & 8 ? 255 : 0, 2, out.codes + group * 8);
  }
  const uint32_t scales = half_at(block, 48 + run / 2 * 2);
  for (uint32_t part = 0; part < 2; ++part) {
    set_scale(out, part, 2 * (scales >> (6 * (run % 2) + 3 * part) & 7) + 1);
  }
  uint32_t all = 0;
  for (uint32_t i = 0; i < 4; ++i) all |= uint32_t{half_at(block, 48 + i * 2)} >> 12 << 4 * i;
  out.scale = all;
}

// Numbers of three values, -1, 0 and 1, and codes 1 to 3 for them. Five to a byte, which is a fraction of
// 256: each product with 3 has the next one above it. 32 bytes, 16 bytes, and four of four numbers.
void read_tq1_0(const std::byte* block, uint32_t run, QuantRun& out) {
  constexpr uint8_t powers[5] = {1, 3, 9, 27, 81};
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t weight = run * 32 + i;
    uint8_t byte, power;
    if (weight < 160) {
      byte = byte_at(block, weight % 32);
      power = powers[weight / 32];
    } else if (weight < 240) {
      byte = byte_at(block, 32 + (weight - 160) % 16);
      power = powers[(weight - 160) / 16];
    } else {
      byte = byte_at(block, 48 + (weight - 240) % 4);
      power = powers[(weight - 240) / 4];
    }
    out.codes[i] = static_cast<uint8_t>((static_cast<uint8_t>(byte * power) * 3 >> 8) + 1);
  }
  set_scale(out, 0, 1);
}

// Two bits for each weight, four runs in the same 32 bytes: of -1 to 2, as -1 times -2 to 1.
void read_tq2_0(const std::byte* block, uint32_t run, QuantRun& out) {
  read_pairs_of_bits(block, run, out);
  for (uint8_t& code : out.codes) code = 3 - code;
  out.scales[0] = -1;
}

// A half scale, then a bit for each weight: whether it is positive.
void read_q1_0(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t i = 0; i < 32; ++i) out.codes[i] = byte_at(block, 2 + run * 4 + i / 8) >> i % 8 & 1;
}

// A half scale, then neighbouring codes of two bits, of -1 to 2, which become the same with the scale's sign.
void read_q2_0(const std::byte* block, uint32_t run, QuantRun& out) {
  for (uint32_t i = 0; i < 32; ++i) {
    out.codes[i] = static_cast<uint8_t>(3 - (byte_at(block, 2 + run * 8 + i / 4) >> i % 4 * 2 & 3));
  }
  out.scale ^= 0x8000;
}

// What quantised folders have (io/quantised/folder_blocks.h): a scale in four bytes, then codes as Q8_0 or
// Q4_0 has them.
void read_int8(const std::byte* block, uint32_t, QuantRun& out) {
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(block, 4 + i) ^ 0x80;
}
void read_f8_e4m3(const std::byte* block, uint32_t, QuantRun& out) {
  for (int i = 0; i < 32; ++i) out.codes[i] = byte_at(block, 4 + i);
}
void read_int4(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 4, out);
}
void read_nf4(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 4, out);
}
// A half and a whole number instead.
void read_uint4(const std::byte* block, uint32_t, QuantRun& out) {
  read_nibbles(block + 4, out);
}

// What the codes of a type stand for.
struct Numbers {
  bool is_signed = false;
  const float* table = nullptr;
  float unit = 1;

  constexpr uint32_t zero(uint32_t bits) const { return is_signed ? 1u << (bits - 1) : 0; }
};

constexpr float nonlinear_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
// Twice the numbers of OCP's E2M1, for the halved exponent.
constexpr float microscaling_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr float iq1_table[8] = {-7, 1, 9, 17, -9, -1, 7, 15};
constexpr float iq2_table[8] = {8, 25, 43, 60, -8, -25, -43, -60};
constexpr float iq3_table[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr float odd_table[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

constexpr float normal_float_table[16] = {-1,
                                          -0.6961928009986877f,
                                          -0.5250730514526367f,
                                          -0.39491748809814453f,
                                          -0.28444138169288635f,
                                          -0.18477343022823334f,
                                          -0.09105003625154495f,
                                          0,
                                          0.07958029955625534f,
                                          0.16093020141124725f,
                                          0.24611230194568634f,
                                          0.33791524171829224f,
                                          0.44070982933044434f,
                                          0.5626170039176941f,
                                          0.7229568362236023f,
                                          1};

// OCP's E4M3. Its two codes that are no number are taken for the next larger one.
struct E4m3Table {
  float values[256] = {};
  constexpr E4m3Table() {
    for (uint32_t code = 0; code < 256; ++code) {
      const uint32_t exponent = code >> 3 & 15;
      float value =
          static_cast<float>((code & 7) + (exponent ? 8 : 0)) / 512; // of 2^(exponent - 10), from 1 on
      for (uint32_t i = 1; i < exponent; ++i) value *= 2;
      values[code] = code & 128 ? -value : value;
    }
  }
};
constexpr E4m3Table e4m3_table;

constexpr Numbers unsigned_numbers, signed_numbers{true}, e4m3_numbers{false, e4m3_table.values},
    normal_float_numbers{false, normal_float_table}, nonlinear_numbers{false, nonlinear_table},
    microscaling_numbers{false, microscaling_table}, odd_numbers{false, odd_table},
    bytes_iq1_numbers{false, iq1_table, 0.125f}, bytes_iq2_numbers{false, iq2_table, 0.125f},
    bytes_iq3_numbers{false, iq3_table, 0.25f};

// Of the middle of a table of 16, for codes of fewer bits.
constexpr const float* table_of(const Numbers& numbers, uint32_t bits) {
  return numbers.table == odd_table ? odd_table + 8 - (1u << bits >> 1) : numbers.table;
}

constexpr QuantFormat formats[] = {
#define PLAIN(...)
#define QUANTIZED(name, gguf_name, gguf_id, block_weights, block_bytes, bits, numbers, scales, scale_at,     \
                  parts)                                                                                     \
  {TensorType::name,                                                                                         \
   bits,                                                                                                     \
   numbers##_numbers.zero(bits),                                                                             \
   table_of(numbers##_numbers, bits),                                                                        \
   numbers##_numbers.unit,                                                                                   \
   QuantScales::scales,                                                                                      \
   scale_at,                                                                                                 \
   parts,                                                                                                    \
   read_##name},
#include "shaders/common/weight_types.def"
};

} // namespace

const QuantFormat* find_quant_format(TensorType type) {
  for (const QuantFormat& format : formats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

void read_run(const QuantFormat& format, const std::byte* block, uint32_t run, QuantRun& out) {
  const std::byte* scale = block + format.scale_at;
  switch (format.scales) {
  case QuantScales::exponent:
    out.scale = byte_at(scale, 0);
    break;
  case QuantScales::single:
    out.scale = word_at(scale, 0);
    break;
  default:
    out.scale = half_at(scale, 0);
    break;
  }
  switch (format.scales) {
  case QuantScales::half_minimum:
    out.minimum = half_at(scale, 2) ^ 0x8000; // files have what is added
    break;
  case QuantScales::half_zero:
  case QuantScales::bytes_minimum:
  case QuantScales::nibbles_minimum:
    out.minimum = half_at(scale, 2);
    break;
  default:
    break;
  }
  format.read(block, run, out);
}

namespace {

// What a part's numbers are multiplied by, and what is then subtracted.
struct PartScale {
  float scale, minimum;
};

PartScale part_scale(const QuantFormat& format, const QuantRun& run, uint32_t part) {
  const float own = static_cast<float>(run.scales[part]);
  const float scale = half_to_float(static_cast<uint16_t>(run.scale)), minimum = half_to_float(run.minimum);
  switch (format.scales) {
  case QuantScales::half:
    return {scale, 0};
  case QuantScales::half_minimum:
    return {scale, minimum};
  case QuantScales::half_zero:
    return {scale, scale * static_cast<float>(run.minimum)};
  case QuantScales::single:
    return {std::bit_cast<float>(run.scale), 0};
  case QuantScales::exponent:
    return {std::ldexp(1.0f, static_cast<int>(run.scale) - 128), 0};
  case QuantScales::small_floats: { // numbers are twice what they are
    const int exponent = run.scales[part] >> 3, mantissa = run.scales[part] & 7;
    return {
        std::ldexp(static_cast<float>(exponent ? mantissa + 8 : mantissa), (exponent ? exponent : 1) - 11),
        0};
  }
  case QuantScales::signed_bytes:
    return {scale * own, 0};
  case QuantScales::bytes_minimum:
  case QuantScales::nibbles_minimum:
    return {scale * own, minimum * static_cast<float>(run.minimums[part])};
  case QuantScales::bytes_eighths:
    return {scale * own, minimum * static_cast<float>(run.minimums[part]) * 0.125f};
  }
  return {};
}

} // namespace

void decode_quant_block(TensorType type, const std::byte* block, float* out) {
  const QuantFormat& format = *find_quant_format(type);
  const uint32_t part_size = 32 / format.parts;
  QuantRun run = {};
  for (uint32_t r = 0; r < info(type).block_size / 32; ++r, out += 32) {
    read_run(format, block, r, run);
    for (uint32_t part = 0; part < format.parts; ++part) {
      const PartScale own = part_scale(format, run, part);
      for (uint32_t i = part * part_size; i < (part + 1) * part_size; ++i) {
        const float number =
            format.numbers
                ? format.numbers[run.codes[i]]
                : static_cast<float>(static_cast<int>(run.codes[i]) - static_cast<int>(format.zero));
        out[i] = own.scale * format.unit * number - own.minimum;
      }
    }
  }
}

} // namespace pumice
