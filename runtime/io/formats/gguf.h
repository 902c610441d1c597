#pragma once

#include "base/result.h"
#include "io/formats/gguf_array.h"
#include "io/tensor_view.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace pumice {

// A GGUF file's header after parsing and checking. Tensors and arrays are views of the bytes that were
// parsed, which must outlive it.
struct GgufFile {
  uint32_t version = 0;     // 2 or 3
  uint64_t alignment = 32;  // of every tensor's data, counted from data_offset
  uint64_t data_offset = 0; // where the tensors' data begins in the file; tensor offsets count from here

  // One flat object, such as {"llama.block_count": 2}. It holds scalars, strings, and arrays of at most 256
  // elements. Bytes that are not UTF-8 are replaced, so that it can be printed as JSON.
  nlohmann::json metadata = nlohmann::json::object();

  // All arrays, of any length. Arrays of arrays are only here, as unparsed bytes.
  std::map<std::string, GgufArray, std::less<>> arrays;

  // Every pair in the header's order: its key, and its type and value as the file has them.
  std::vector<std::pair<std::string, std::span<const std::byte>>> pairs;

  std::vector<TensorView> tensors; // in the header's order; shapes are outermost first

  // Reads and checks the whole header: every tensor lies inside the bytes, and no two overlap. Errors:
  // invalid_file if the format is violated, unsupported if this build cannot read it. Both name `file_name`,
  // the field or tensor, what was expected and what was found.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string file_name);
};

} // namespace pumice
