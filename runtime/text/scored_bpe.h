#pragma once

#include "text/model.h"

namespace pumice::text {

// SentencePiece's byte-pair encoding, which has no list of merges. Of the adjacent pairs that form a token,
// the pair whose token has the highest score is joined (the leftmost if several have it). A character that is
// no token becomes the tokens of its bytes.
struct ScoredBpeOptions {
  std::optional<uint32_t> unknown;
};

// Makes the model. `vocabulary` must outlive it; `scores` are by id and not NaN.
ModelPtr make_scored_bpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options);

} // namespace pumice::text
