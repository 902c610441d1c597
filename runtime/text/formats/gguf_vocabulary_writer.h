#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

// A tokenizer.json as GGUF's tokenizer.ggml.* keys say it.
struct GgufVocabularyTable {
  std::string model; // "llama" or "gpt2"
  std::string pre;   // how text is cut before byte-pair encoding
  std::vector<std::string> tokens;
  std::vector<float> scores; // of "llama": from the ranks of the merges
  std::vector<int32_t> types;
  std::vector<std::string> merges; // of "gpt2"
  // What goes around a text, and failing that the tokens with the customary names.
  std::optional<uint32_t> bos, eos;
  std::optional<uint32_t> unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  // Sentences about what GGUF cannot say of this tokenizer, so that some texts may be cut otherwise.
  std::vector<std::string> notes;
};

// `rows` is the number of tokens the model has: ids that the tokenizer does not use become unused tokens.
// Errors name `file` and the field; unsupported is what GGUF has no words for.
Result<GgufVocabularyTable> gguf_vocabulary(std::string_view tokenizer_json, const std::string& file,
                                            uint32_t rows);

} // namespace pumice::text
