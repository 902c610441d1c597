#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "io/model_file.h"
#include "text/tokenizer.h"

namespace pumice {

// The tokenizer that comes with a model: a GGUF file's own vocabulary, or the tokenizer.json beside the
// weights. not_found where the model has none.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelFile& file);

// The tokens that end a text, from the model's settings, or from the tokenizer if they name none.
std::vector<uint32_t> end_tokens(const ModelFile& file, const Tokenizer* tokenizer);

} // namespace pumice
