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
  std::string_view name; // as GGUF's tools spell it: "F32", "Q8_0"
  uint32_t block_size;   // elements in a block; a row is a whole number of blocks
  uint32_t block_bytes;
  uint32_t gguf_id;                  // the number in a GGUF tensor's header
  std::string_view safetensors_name; // empty where that format has no such type
};

const TensorTypeInfo& info(TensorType type);
std::span<const TensorTypeInfo> tensor_types(); // all of them, in the order of the enum

// Each returns null where there is no such type.
const TensorTypeInfo* find_gguf_type(uint32_t id);
const TensorTypeInfo* find_safetensors_type(std::string_view name);
const TensorTypeInfo*
find_type_named(std::string_view name); // of info().name; upper and lower case are the same

// "F32, F16, ...", for messages.
std::string tensor_type_names();

// Bytes of one row. `elements` is a multiple of the block size.
uint64_t row_bytes(TensorType type, uint64_t elements);

// Bytes of a whole tensor, rows along the last dimension; no dimensions at all is one element. Nothing where
// that does not fit 64 bits or a row is not a whole number of blocks.
std::optional<uint64_t> tensor_bytes(TensorType type, std::span<const uint64_t> shape);

// One block, which need not be aligned, to block_size floats.
void decode_block(TensorType type, const std::byte* block, float* out);

// A row to floats. `out.size()` is a multiple of the block size, and `row` need not be aligned.
void decode_row(TensorType type, const std::byte* row, std::span<float> out);

// IEEE 754 binary16 and the upper half of binary32, as bits. To half: to the nearest, ties to even; what is
// too large becomes infinity; NaN stays NaN, and to-float-and-back gives the same bits for every half but
// that a signalling NaN may come back quiet.
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bf16_to_float(uint16_t bf16);
uint16_t float_to_bf16(float value);

} // namespace pumice
