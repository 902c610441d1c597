#pragma once

#include "text/model.h"

namespace pumice::text {

// BERT's way: a word is cut from the left, each time the longest token that fits. A word that cannot be cut
// so, or is too long, is the unknown token as a whole.
struct WordPieceOptions {
  uint32_t unknown = 0;
  std::string continuing_prefix = "##"; // what tokens within a word begin with
  size_t max_characters = 100;          // of a word
};

// `vocabulary` must outlive the model.
ModelPtr make_wordpiece(const Vocabulary& vocabulary, WordPieceOptions options);

} // namespace pumice::text
