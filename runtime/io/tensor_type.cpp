#include "io/tensor_type.h"

#include "io/bytes.h"
#include "io/quant_run.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <iterator>

namespace pumice {
namespace {

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

constexpr TensorTypeInfo table[] = {
#define PLAIN(name, gguf_name, gguf_id, bytes, safetensors_name)                                             \
  {TensorType::name, gguf_name, 1, bytes, gguf_id, safetensors_name},
#define QUANTIZED(name, gguf_name, gguf_id, block_weights, block_bytes, ...)                                 \
  {TensorType::name, gguf_name, block_weights, block_bytes, gguf_id, ""},
#include "shaders/common/weight_types.def"
};

const TensorTypeInfo* find_if(auto&& fits) {
  const auto found = std::find_if(std::begin(table), std::end(table), fits);
  return found == std::end(table) ? nullptr : found;
}

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

} // namespace

const TensorTypeInfo& info(TensorType type) {
  assert(static_cast<size_t>(type) < std::size(table));
  return table[static_cast<size_t>(type)];
}

std::span<const TensorTypeInfo> tensor_types() {
  return table;
}

const TensorTypeInfo* find_gguf_type(uint32_t id) {
  constexpr uint32_t in_no_file = 1000; // and from here on
  return find_if([&](const TensorTypeInfo& entry) { return entry.gguf_id == id && id < in_no_file; });
}

const TensorTypeInfo* find_safetensors_type(std::string_view name) {
  if (name.empty()) return nullptr;
  return find_if([&](const TensorTypeInfo& entry) { return entry.safetensors_name == name; });
}

const TensorTypeInfo* find_type_named(std::string_view name) {
  return find_if([&](const TensorTypeInfo& entry) {
    return std::equal(name.begin(), name.end(), entry.name.begin(), entry.name.end(),
                      [](char a, char b) { return upper(a) == upper(b); });
  });
}

std::string tensor_type_names() {
  std::string names;
  for (const TensorTypeInfo& entry : table) names.append(names.empty() ? "" : ", ").append(entry.name);
  return names;
}

uint64_t row_bytes(TensorType type, uint64_t elements) {
  const TensorTypeInfo& entry = info(type);
  assert(elements % entry.block_size == 0);
  return elements / entry.block_size * entry.block_bytes;
}

std::optional<uint64_t> tensor_bytes(TensorType type, std::span<const uint64_t> shape) {
  const TensorTypeInfo& entry = info(type);
  const uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % entry.block_size != 0) return std::nullopt;
  uint64_t bytes = 0;
  if (!multiply(row / entry.block_size, entry.block_bytes, bytes)) return std::nullopt;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (!multiply(bytes, shape[i], bytes)) return std::nullopt;
  return bytes;
}

void decode_block(TensorType type, const std::byte* block, float* out) {
  switch (type) {
  case TensorType::f32:
    *out = load<float>(block);
    break;
  case TensorType::f16:
    *out = half_to_float(load<uint16_t>(block));
    break;
  case TensorType::bf16:
    *out = bf16_to_float(load<uint16_t>(block));
    break;
  default:
    decode_quant_block(type, block, out);
  }
}

void decode_row(TensorType type, const std::byte* row, std::span<float> out) {
  const TensorTypeInfo& entry = info(type);
  assert(out.size() % entry.block_size == 0);
  for (size_t i = 0; i + entry.block_size <= out.size(); i += entry.block_size, row += entry.block_bytes)
    decode_block(type, row, out.data() + i);
}

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = static_cast<float>(mantissa) * 0x1p-24f; // zero or subnormal: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (size >> 13 & 0x3ffu));
  if (size >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u); // 65536 and more
  if (size < 0x38800000u) {                                              // below the smallest normal half
    // Adding 0.5 puts the half's last bit at the float's, and the addition rounds to the nearest even.
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = size >> 13 & 1u;
  return static_cast<uint16_t>(sign | (size - (112u << 23) + 0xfffu + odd) >> 13); // may carry into infinity
}

float bf16_to_float(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u); // stay NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

} // namespace pumice
