#pragma once

#include "text/tokenizer_parts.h"

namespace pumice::text {

// Reads a tokenizer.json. `file` is for error messages.
Result<std::unique_ptr<TokenizerParts>> read_huggingface(std::string_view json, const std::string& file);
// Reads a vocabulary in the form that GGUF files have.
Result<std::unique_ptr<TokenizerParts>> read_gguf(const Tokenizer::GgufVocabulary& vocabulary);
// Reads byte-pair tokens by their ranks.
Result<std::unique_ptr<TokenizerParts>> read_ranked(const Tokenizer::RankedVocabulary& vocabulary);

} // namespace pumice::text
