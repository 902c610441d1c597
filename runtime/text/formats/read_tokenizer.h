#pragma once

#include "text/tokenizer_parts.h"

namespace pumice::text {

// A tokenizer.json. `file` is for error messages.
Result<std::unique_ptr<TokenizerParts>> read_huggingface(std::string_view json, const std::string& file);
// A vocabulary as GGUF files keep it.
Result<std::unique_ptr<TokenizerParts>> read_gguf(const Tokenizer::GgufVocabulary& vocabulary);

} // namespace pumice::text
