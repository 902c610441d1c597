#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "base/result.h"
#include "generate/generation_config.h"

namespace pumice {

// The score of a token that may not come.
constexpr float forbidden_score = -std::numeric_limits<float>::infinity();

// Changes the scores of a step, one for each token of the vocabulary, before a token is chosen. Minus
// infinity forbids a token. `text` is the text so far, without the prompt; `input` is an index into the
// inputs of the call.
using LogitRule =
    std::function<Status(size_t input, std::span<float> scores, std::span<const uint32_t> text)>;

// Applies the rules of a model's settings, in the order of transformers: repetition penalty, repeated
// n-grams, suppressed tokens, least length, forced tokens.
void apply_rules(const GenerationConfig& config, std::span<float> scores, std::span<const uint32_t> text);

// Whether the settings only suppress tokens. The sampler on the device can do that, so the host need not
// apply rules.
bool only_suppresses(const GenerationConfig& config);

} // namespace pumice
