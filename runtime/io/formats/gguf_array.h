#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pumice {

constexpr uint32_t most_gguf_dimensions = 4;      // of a tensor
constexpr size_t longest_gguf_tensor_name = 1024; // that is read; ggml itself allows 63

// The types of metadata values, with the numbers that the file has for them.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// An array of the metadata. It is not copied out of the file, because a vocabulary can take megabytes.
struct GgufArray {
  GgufType type = GgufType::u8; // of the elements
  uint64_t count = 0;
  std::span<const std::byte> bytes; // the elements in the file's encoding

  // The elements, decoded. Strings are views into the file and need not be valid UTF-8. Numbers of any type
  // are converted: floats() rounds; integers() wraps u64 and cuts off fractions. An array of another kind
  // gives an empty vector, so compare its size with `count`.
  std::vector<std::string_view> strings() const;
  std::vector<float> floats() const;
  std::vector<int64_t> integers() const; // booleans too, as 0 and 1
};

} // namespace pumice
