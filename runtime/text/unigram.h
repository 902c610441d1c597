#pragma once

#include <optional>

#include "text/model.h"

namespace pumice::text {

// SentencePiece's unigram model: of all the ways to cut a piece into tokens, the one whose scores add up to
// the most. A character that is no token costs 10 more than the worst token; a run of them is one unknown.
struct UnigramOptions {
  std::optional<uint32_t> unknown;
  bool byte_fallback = false;
  std::vector<bool> left_out; // by id: tokens that no text becomes; empty: none are
};

// `vocabulary` must outlive the model; `scores` go by id and are finite.
ModelPtr make_unigram(const Vocabulary& vocabulary, std::vector<double> scores,
                      const UnigramOptions& options);

} // namespace pumice::text
