#pragma once

#include "base/result.h"
#include "io/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

// A safetensors file: named arrays of any type, of which model weights are one use and `pumice eval`'s inputs
// and outputs are another.
struct SafetensorsFile {
  struct Entry {
    std::string name;
    std::string dtype;           // as the file has it: "F32", "I64"
    std::vector<uint64_t> shape; // outermost first; empty for a scalar; a dimension of 0 is an empty tensor
    std::span<const std::byte> data; // need not be aligned
  };

  std::vector<Entry> entries; // in the order of their data
  MappedFile file;            // what the entries point into, where open() made them

  // Views of `bytes`, which must outlive them. Errors are invalid_file and name `file_name`, the tensor, what
  // was expected and what was found. A type that is not known here is let through, its size unchecked.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string file_name);

  // Maps the file and keeps it mapped. Errors also as MappedFile::open's.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const Entry* find(std::string_view name) const; // null if there is none

  // An entry's elements. floats() takes F64, F32, F16, BF16; integers() takes I64, I32, I16, I8, U32, U16, U8
  // and BOOL. Another type is `unsupported`.
  static Result<std::vector<float>> floats(const Entry& entry);
  static Result<std::vector<int64_t>> integers(const Entry& entry);
};

// Bytes of one element of a type such as "F32"; 0 for one that is not known.
uint64_t safetensors_dtype_bytes(std::string_view dtype);

// Writes a file that has these entries. Errors: invalid_argument for a duplicate name, an unknown type or
// data that does not fit the shape; io.
Status write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Entry> entries);

} // namespace pumice
