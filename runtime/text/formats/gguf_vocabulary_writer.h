#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

// A tokenizer.json as the values of GGUF's tokenizer.ggml.* keys.
struct GgufVocabularyTable {
  std::string model; // "llama", "gpt2" or "bert"
  std::string pre;   // how text is cut before byte-pair encoding
  std::vector<std::string> tokens;
  std::vector<float> scores; // for "llama": made from the ranks of the merges
  std::vector<int32_t> types;
  std::vector<std::string> merges; // for "gpt2"
  // The tokens around a text or, if there are none, the tokens with the usual names.
  std::optional<uint32_t> bos, eos;
  std::optional<uint32_t> unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  std::optional<bool> lowercase; // for "bert"
  // Sentences about what GGUF cannot express, so that some texts may be cut differently.
  std::vector<std::string> notes;
};

// Converts a tokenizer.json. `rows` is the number of tokens that the model has; ids that the tokenizer does
// not use become unused tokens. Errors name `file` and the field; unsupported if GGUF cannot express it.
Result<GgufVocabularyTable> gguf_vocabulary(std::string_view tokenizer_json, const std::string& file,
                                            uint32_t rows);

} // namespace pumice::text
