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

// A safetensors file: named arrays of any type. Model weights are stored in it, and the inputs and outputs of
// `pumice eval`.
struct SafetensorsFile {
  struct Entry {
    std::string name;
    std::string dtype;               // the file's name for it: "F32", "I64"
    std::vector<uint64_t> shape;     // outermost first; empty for a scalar; a dimension may be 0
    std::span<const std::byte> data; // need not be aligned
  };

  std::vector<Entry> entries; // in the order of their data
  MappedFile file;            // set by open(): the entries point into it

  // Parses and checks a header. The entries are views of `bytes`, which must outlive them. Errors are
  // invalid_file and name `file_name`, the tensor, what was expected and what was found. An entry of an
  // unknown type is accepted; its size is not checked.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string file_name);

  // Maps the file and parses it. Also returns the errors of MappedFile::open.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const Entry* find(std::string_view name) const; // null if there is none

  // An entry's elements, converted. floats() accepts F64, F32, F16 and BF16; integers() accepts I64, I32,
  // I16, I8, U32, U16, U8 and BOOL. Any other type is `unsupported`.
  static Result<std::vector<float>> floats(const Entry& entry);
  static Result<std::vector<int64_t>> integers(const Entry& entry);
};

// Bytes of one element of a type such as "F32"; 0 for an unknown type.
uint64_t safetensors_dtype_bytes(std::string_view dtype);

// Writes a file with these entries, as OutputFile does it. Errors: those of OutputFile; invalid_argument for
// a duplicate name, an unknown type or data that does not fit the shape.
Status write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Entry> entries);

} // namespace pumice
