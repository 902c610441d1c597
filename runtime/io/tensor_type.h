#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pumice {

// How a weight's numbers are stored: one value for each line of the table.
enum class TensorType : uint8_t {
#define PLAIN(name, ...) name,
#define QUANTIZED(name, ...) name,
#include "shaders/common/weight_types.def"
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name; // as in GGUF's tools: "F32", "Q8_0"
  uint32_t block_size;   // elements in a block; a row is a whole number of blocks
  uint32_t block_bytes;
  uint32_t gguf_id;                  // the number in a GGUF tensor's header
  std::string_view safetensors_name; // empty if safetensors has no such type
};

const TensorTypeInfo& info(TensorType type);
std::span<const TensorTypeInfo> tensor_types(); // all of them, in the order of the enum

// Each returns null if there is no such type.
const TensorTypeInfo* find_gguf_type(uint32_t id);
const TensorTypeInfo* find_safetensors_type(std::string_view name);
const TensorTypeInfo* find_type_named(std::string_view name); // by info().name; case does not matter

// The names of all types, "F32, F16, ...", for messages.
std::string tensor_type_names();

// Bytes of one row. `elements` must be a multiple of the block size.
uint64_t row_bytes(TensorType type, uint64_t elements);

// Bytes of a whole tensor, whose rows lie along the last dimension. An empty shape is one element. Returns
// nothing if the size does not fit 64 bits or if a row is not a whole number of blocks.
std::optional<uint64_t> tensor_bytes(TensorType type, std::span<const uint64_t> shape);

// Decodes one block, which need not be aligned, to block_size floats.
void decode_block(TensorType type, const std::byte* block, float* out);

// Decodes a row to floats. `out.size()` must be a multiple of the block size; `row` need not be aligned.
void decode_row(TensorType type, const std::byte* row, std::span<float> out);

// Conversions of IEEE 754 binary16 (half) and bfloat16 (the upper half of binary32), given as bits.
// Conversions from float round to the nearest, ties to even; values that are too large become infinity; NaN
// stays NaN. A half that is converted to float and back keeps its bits, except that a signalling NaN may
// become quiet.
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bf16_to_float(uint16_t bf16);
uint16_t float_to_bf16(float value);

} // namespace pumice
