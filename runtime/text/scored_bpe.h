#pragma once

#include "text/model.h"

namespace pumice::text {

// SentencePiece's byte-pair encoding, which knows no list of merges: of the adjacent pairs that together are
// a token, the one whose token scores best is joined, the leftmost if several do. Characters that are no
// token fall back to their bytes.
struct ScoredBpeOptions {
  std::optional<uint32_t> unknown;
};

// `vocabulary` must outlive the model; `scores` go by id and are not NaN.
ModelPtr make_scored_bpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options);

} // namespace pumice::text
