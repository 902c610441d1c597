#pragma once

#include "base/result.h"
#include "io/gguf_array.h"
#include "io/tensor_view.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace pumice {

// A GGUF file's header, checked. Tensors and arrays are views of the bytes that were parsed, which must
// outlive it.
struct GgufFile {
  uint32_t version = 0;     // 2 or 3
  uint64_t alignment = 32;  // of every tensor, from data_offset
  uint64_t data_offset = 0; // from the start of the file to where tensor offsets count from

  // One flat object: "llama.block_count": 2. Scalars, strings, and arrays of at most 256 elements. Text is
  // made valid UTF-8, so that it can be printed as JSON.
  nlohmann::json metadata = nlohmann::json::object();

  // Every array whatever its length. Arrays of arrays are here alone, with their bytes and no way to iterate.
  std::map<std::string, GgufArray, std::less<>> arrays;

  std::vector<TensorView> tensors; // in the header's order, shapes outermost first

  // Reads the header and checks all of it: no tensor lies outside the bytes or over another one. Errors are
  // invalid_file for what breaks the format and unsupported for what this build cannot read; both name
  // `file_name`, the field or tensor, what was expected and what was found.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string file_name);
};

} // namespace pumice
