#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/unicode/pre_tokenizer.h"

namespace pumice::text {

// How a GGUF file's byte-pair tokens spell text.
enum class GgufSpelling {
  bytes,         // each byte as a character
  marked_spaces, // as it is, with U+2581 for a space; bytes without a token are written <0xNN>
  words,         // as it is, without white space
};

// What a value of a GGUF file's tokenizer.ggml.pre stands for.
struct GgufSplit {
  std::string_view name;
  std::span<const std::string_view> patterns; // in order; each cuts the pieces of the one before
  bool ignore_merges = false;                 // a piece that is a token is not split
  bool add_bos = false;                       // where the file does not say
  bool pairs_as_roberta = false;              // a pair of texts has two separators between them
  GgufSpelling spelling = GgufSpelling::bytes;
};

const GgufSplit* find_gguf_split(std::string_view name); // null if there is none
// The first with byte-level tokens that cuts by exactly these patterns; null if there is none.
const GgufSplit* find_gguf_split(std::span<const std::string> patterns, bool ignore_merges);
std::span<const GgufSplit> gguf_splits();

// Cuts text by the patterns, and writes bytes as characters where the tokens do.
Result<PreTokenizerPtr> make_gguf_split(const GgufSplit& split);

} // namespace pumice::text
