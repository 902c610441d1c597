#pragma once

#include <cstddef>
#include <cstdint>

#include "io/tensor_type.h"

namespace pumice {

// 32 neighbouring weights of a quantised row, taken out of the block they lie in. Weight i is
//     scale * scales[part] * unit * number(codes[i]) - minimum * minimums[part]
// where a part is 32 / QuantFormat::parts weights, and every type leaves out what it does not have.
struct QuantRun {
  uint8_t codes[32];
  uint32_t scale;   // a half, or a float, or the exponent e of 2^(e - 128): what the format has
  uint16_t minimum; // a half
  int8_t scales[2];
  uint8_t minimums[2];
};

// How a run's scales and minimums are kept.
enum class QuantScales : uint8_t {
  half,          // scale
  half_minimum,  // scale and minimum, which files have with the other sign
  half_zero,     // scale, and in the place of a minimum how many of it are taken away, a whole number
  single,        // scale, a float
  exponent,      // scale, an exponent
  small_floats,  // scales of each part: UE4M3, floats of 4 bits of exponent and 3 of mantissa without a sign
  signed_bytes,  // scale for eight runs, scales for each part
  bytes_minimum, // scale and minimum for eight runs, scales and minimums of 6 bits for each part
  nibbles_minimum, // the same of 4 bits
  bytes_eighths,   // scale for eight runs; scales for each part, and minimums in eighths of the scale
};

// What a quantised type is made of: its line in shaders/common/weight_types.def, and how its blocks are read.
// Serves the decoding here and the packing for the device; shaders/common/weight.glsl decodes what was
// packed.
struct QuantFormat {
  TensorType type;
  uint32_t bits;        // of a code
  uint32_t zero;        // the code of the number 0: number(code) = code - zero, or
  const float* numbers; // a table of what each code stands for
  float unit;           // what such a number counts
  QuantScales scales;
  uint32_t scale_at; // the byte of a block where its scale is, and the minimum behind it
  uint32_t parts;    // 1 or 2
  // Takes codes, scales and minimums of run `run` of the block. The block's own are read for all types alike.
  void (*read)(const std::byte* block, uint32_t run, QuantRun& out);
};

// Null for types that are plain numbers.
const QuantFormat* find_quant_format(TensorType type);

// Run `run` of a block: its codes, and all its scales and minimums.
void read_run(const QuantFormat& format, const std::byte* block, uint32_t run, QuantRun& out);

// A whole block to floats.
void decode_quant_block(TensorType type, const std::byte* block, float* out);

} // namespace pumice
