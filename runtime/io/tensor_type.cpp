#include "io/tensor_type.h"

#include "io/bytes.h"
#include "io/quant_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace pumice {
namespace {

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

constexpr std::array<TensorTypeInfo, 16> table = {{
    // type           name     elements bytes gguf safetensors
    {TensorType::f32, "F32", 1, 4, 0, "F32"},
    {TensorType::f16, "F16", 1, 2, 1, "F16"},
    {TensorType::bf16, "BF16", 1, 2, 30, "BF16"},
    {TensorType::q8_0, "Q8_0", 32, 34, 8, ""},
    {TensorType::q4_0, "Q4_0", 32, 18, 2, ""},
    {TensorType::q4_1, "Q4_1", 32, 20, 3, ""},
    {TensorType::q5_0, "Q5_0", 32, 22, 6, ""},
    {TensorType::q5_1, "Q5_1", 32, 24, 7, ""},
    {TensorType::q2_k, "Q2_K", 256, 84, 10, ""},
    {TensorType::q3_k, "Q3_K", 256, 110, 11, ""},
    {TensorType::q4_k, "Q4_K", 256, 144, 12, ""},
    {TensorType::q5_k, "Q5_K", 256, 176, 13, ""},
    {TensorType::q6_k, "Q6_K", 256, 210, 14, ""},
    {TensorType::iq4_nl, "IQ4_NL", 32, 18, 20, ""},
    {TensorType::iq4_xs, "IQ4_XS", 256, 136, 23, ""},
    {TensorType::mxfp4, "MXFP4", 32, 17, 39, ""},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < table.size(); ++i)
    if (static_cast<size_t>(table[i].type) != i) return false;
  return true;
}
static_assert(table_is_in_order(), "info() finds a type's entry by the enum's value");

const TensorTypeInfo* find_if(auto&& fits) {
  const auto found = std::find_if(table.begin(), table.end(), fits);
  return found == table.end() ? nullptr : &*found;
}

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

} // namespace

const TensorTypeInfo& info(TensorType type) {
  assert(static_cast<size_t>(type) < table.size());
  return table[static_cast<size_t>(type)];
}

std::span<const TensorTypeInfo> tensor_types() {
  return table;
}

const TensorTypeInfo* find_gguf_type(uint32_t id) {
  return find_if([&](const TensorTypeInfo& entry) { return entry.gguf_id == id; });
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
