#pragma once

#include <string>
#include <string_view>

#include "model/architecture.h"

// A decoder that sees in GGUF: a file of the text model, with its vocabulary, and an mmproj file beside it.
namespace pumice {

// An error unless the text model has this architecture in GGUF, and embeddings of so many columns, which the
// tensor or the key `field` of the mmproj file gives its rows.
Status check_pair(const ModelFile& text, std::string_view architecture, uint32_t columns,
                  std::string_view field);

// The token of a text model's vocabulary with this spelling. not_found if there is none.
Result<uint32_t> vocabulary_token(const ModelFile& text, std::string_view spelling);

struct VocabularyToken {
  uint32_t id = 0;
  std::string spelling;
};
// The token of this spelling, which stands for a picture, or where the vocabulary lacks it, as in files that
// llama.cpp's converter makes of Gemma 3 and of the first LLaVA, the unknown or padding token, which no text
// has.
Result<VocabularyToken> picture_vocabulary_token(const ModelFile& text, std::string_view spelling);

} // namespace pumice
