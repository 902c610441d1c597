#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pumice::text {

// How text is cut before byte-pair encoding, for one value of a GGUF file's tokenizer.ggml.pre.
struct GgufSplit {
  std::string_view name;
  std::span<const std::string_view> patterns; // in order; each cuts the pieces of the one before
  bool ignore_merges = false;                 // a piece that is a token is not split
};

const GgufSplit* find_gguf_split(std::string_view name); // null if there is none
// The first that cuts by exactly these patterns; null if there is none.
const GgufSplit* find_gguf_split(std::span<const std::string> patterns, bool ignore_merges);
std::string known_gguf_splits(); // for error messages

} // namespace pumice::text
