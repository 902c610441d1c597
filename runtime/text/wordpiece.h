#pragma once

#include "text/model.h"

namespace pumice::text {

// BERT's model: a word is cut from left to right, each time at the longest token that matches. A word that
// cannot be cut in this way, or that is too long, becomes one unknown token.
struct WordPieceOptions {
  uint32_t unknown = 0;
  std::string continuing_prefix = "##"; // before tokens that continue a word
  size_t max_characters = 100;          // of a word
};

// `vocabulary` must outlive the model.
ModelPtr make_wordpiece(const Vocabulary& vocabulary, WordPieceOptions options);

} // namespace pumice::text
