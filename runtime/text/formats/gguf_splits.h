#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pumice::text {

// How a GGUF file's tokenizer.ggml.pre says text is cut before byte-pair encoding.
struct GgufSplit {
  std::string_view name;
  std::span<const std::string_view> patterns; // applied in turn, each to the pieces the one before left
  bool ignore_merges = false;                 // a piece that is a token is not taken apart
};

const GgufSplit* find_gguf_split(std::string_view name); // null if there is none
// The first that cuts by just these patterns.
const GgufSplit* find_gguf_split(std::span<const std::string> patterns, bool ignore_merges);
std::string known_gguf_splits(); // for error messages

} // namespace pumice::text
