#pragma once

#include <memory>
#include <vector>

#include "io/model_file.h"
#include "text/tokenizer.h"

namespace pumice {

// Where the other files of a model are: the folder that was opened, the GGUF file if it has them, or the
// folder in which the file lies.
ModelFolder folder_of(const ModelFile& file);

// The tokenizer that comes with a model: a GGUF file's own vocabulary, or the tokenizer.json beside the
// weights. It is also used where a GGUF file's vocabulary is of a kind that is not known. not_found where the
// model has none.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelFile& file);

// What a token stands for in place of text. The values are those of pumice_token_role.
enum class TokenRole { begin = 1, end, unknown, padding, separator, mask };

// The tokens with a role, from the model's settings, or from the tokenizer if they name none. Each once.
std::vector<uint32_t> tokens_of(TokenRole role, const ModelFile& file, const Tokenizer* tokenizer);

// The tokens that end a text: of generation_config.json too, where a model's folder has one.
inline std::vector<uint32_t> end_tokens(const ModelFile& file, const Tokenizer* tokenizer) {
  return tokens_of(TokenRole::end, file, tokenizer);
}

} // namespace pumice
