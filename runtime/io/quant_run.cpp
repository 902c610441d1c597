#include "io/quant_run.h"

#include <cmath>
#include <cstring>

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

// What the codes of a type stand for.
struct Numbers {
  bool is_signed = false;
  const int8_t* table = nullptr;

  constexpr uint32_t zero(uint32_t bits) const { return is_signed ? 1u << (bits - 1) : 0; }
};

constexpr int8_t nonlinear_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
// Twice the numbers of OCP's E2M1, for the halved exponent.
constexpr int8_t microscaling_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr Numbers unsigned_numbers, signed_numbers{true}, nonlinear_numbers{false, nonlinear_table},
    microscaling_numbers{false, microscaling_table};

constexpr QuantFormat formats[] = {
#define PLAIN(...)
#define QUANTIZED(name, gguf_name, gguf_id, block_weights, block_bytes, bits, numbers, scales, scale_at,     \
                  parts)                                                                                     \
  {TensorType::name,                                                                                         \
   bits,                                                                                                     \
   numbers##_numbers.zero(bits),                                                                             \
   numbers##_numbers.table,                                                                                  \
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
  out.scale = format.scales == QuantScales::exponent ? byte_at(scale, 0) : half_at(scale, 0);
  switch (format.scales) {
  case QuantScales::half_minimum:
    out.minimum = half_at(scale, 2) ^ 0x8000; // files have what is added
    break;
  case QuantScales::bytes_minimum:
  case QuantScales::nibbles_minimum:
    out.minimum = half_at(scale, 2);
    break;
  default:
    break;
  }
  format.read(block, run, out);
}

void decode_quant_block(TensorType type, const std::byte* block, float* out) {
  const QuantFormat& format = *find_quant_format(type);
  const bool fine = format.scales >= QuantScales::signed_bytes;
  QuantRun run = {};
  for (uint32_t r = 0; r < info(type).block_size / 32; ++r, out += 32) {
    read_run(format, block, r, run);
    const float scale =
        format.scales == QuantScales::exponent ? std::ldexp(1.0f, run.scale - 128) : half_to_float(run.scale);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t part = i * format.parts / 32;
      const int number = format.numbers ? format.numbers[run.codes[i]]
                                        : static_cast<int>(run.codes[i]) - static_cast<int>(format.zero);
      const float minimum = half_to_float(run.minimum) * (fine ? static_cast<float>(run.minimums[part]) : 1);
      out[i] =
          scale * (fine ? static_cast<float>(run.scales[part]) : 1) * static_cast<float>(number) - minimum;
    }
  }
}

} // namespace pumice
