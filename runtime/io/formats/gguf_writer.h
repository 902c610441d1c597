#pragma once

#include "base/result.h"
#include "io/bytes.h"
#include "io/formats/gguf_array.h"
#include "io/output_file.h"
#include "io/tensor_type.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

// Writes a GGUF file of version 3 with an alignment of 32 bytes. Order of the calls: add() and add_array()
// for every setting and add_tensor() for every tensor; open(); write() with the tensors' bytes in the order
// in which the tensors were added, in pieces of any size; finish(). The file is written as OutputFile does
// it.
//
// Errors name the path: those of OutputFile, and invalid_argument if a key or tensor was added twice or does
// not fit the format.
class GgufWriter {
public:
  // Adds a setting. Its type in the file is the type of the argument.
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void add(std::string_view key, T value) {
    begin_pair(key, type_of<T>());
    put(pairs_, value);
  }
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void add_array(std::string_view key, std::span<const T> values) {
    begin_array(key, type_of<T>(), values.size());
    for (const T value : values) put(pairs_, value);
  }
  void add_array(std::string_view key, std::span<const std::string> values);
  void add_bytes(std::string_view key, std::span<const std::byte> bytes); // an array of u8
  void add_flags(std::string_view key, std::span<const uint8_t> flags);   // an array of booleans
  // A pair as another file has it (GgufFile::pairs): its type and its value.
  void add_pair(std::string_view key, std::span<const std::byte> bytes);

  // Tensors' names may be longer than ggml allows, for files that it does not read. Before the first tensor.
  void allow_long_names();
  // `shape` is outermost first. Its last dimension must be a multiple of the type's block size.
  void add_tensor(std::string_view name, std::span<const uint64_t> shape, TensorType type);

  uint64_t tensor_bytes() const { return tensor_bytes_; } // of all tensors, without padding

  Status open(const std::filesystem::path& path);
  Status write(std::span<const std::byte> bytes);
  Status finish();
  uint64_t file_bytes() const { return position_; }

private:
  using Bytes = std::vector<std::byte>;

  template <class T>
  static constexpr GgufType type_of();
  template <class T>
  static void put(Bytes& out, T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof(T));
  }
  static void put_text(Bytes& out, std::string_view text);
  void begin_key(std::string_view key);
  void begin_pair(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t count);
  Status put_file(std::span<const std::byte> bytes);
  Status pad();
  Error invalid(std::string_view what) const;

  Bytes pairs_;
  uint64_t pair_count_ = 0;
  Bytes tensors_;
  std::vector<uint64_t> sizes_; // of each tensor
  uint64_t next_offset_ = 0;    // of the next tensor, from the start of the data
  uint64_t tensor_bytes_ = 0;
  size_t longest_name_ = 63;                 // of a tensor; ggml's own limit
  std::set<std::string, std::less<>> names_; // keys, and tensors' names after a space, which no key has
  std::string problem_;                      // why an addition is invalid; the first such problem

  std::filesystem::path path_;
  OutputFile file_;
  uint64_t position_ = 0;
  size_t current_ = 0;   // index of the tensor that is being written
  uint64_t written_ = 0; // bytes of it
};

template <class T>
constexpr GgufType GgufWriter::type_of() {
  if constexpr (std::same_as<T, bool>) return GgufType::boolean;
  if constexpr (std::same_as<T, uint8_t>) return GgufType::u8;
  if constexpr (std::same_as<T, int8_t>) return GgufType::i8;
  if constexpr (std::same_as<T, uint16_t>) return GgufType::u16;
  if constexpr (std::same_as<T, int16_t>) return GgufType::i16;
  if constexpr (std::same_as<T, uint32_t>) return GgufType::u32;
  if constexpr (std::same_as<T, int32_t>) return GgufType::i32;
  if constexpr (std::same_as<T, float>) return GgufType::f32;
  if constexpr (std::same_as<T, uint64_t>) return GgufType::u64;
  if constexpr (std::same_as<T, int64_t>) return GgufType::i64;
  if constexpr (std::same_as<T, double>) return GgufType::f64;
}

} // namespace pumice
