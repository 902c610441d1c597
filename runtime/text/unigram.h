#pragma once

#include <optional>

#include "text/model.h"

namespace pumice::text {

// SentencePiece's unigram model: of all ways to cut a piece into tokens, it chooses the one with the largest
// sum of scores. A character that is no token has a score of 10 less than the worst token; a run of such
// characters becomes one unknown token.
struct UnigramOptions {
  std::optional<uint32_t> unknown;
  bool byte_fallback = false;
  std::vector<bool> left_out; // by id: whether encoding never gives this token; empty: none
};

// Makes the model. `vocabulary` must outlive it; `scores` are by id and finite.
ModelPtr make_unigram(const Vocabulary& vocabulary, std::vector<double> scores,
                      const UnigramOptions& options);

} // namespace pumice::text
