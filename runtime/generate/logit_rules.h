#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "generate/generation_config.h"

namespace pumice {

// The score of a token that may not come.
constexpr float forbidden_score = -std::numeric_limits<float>::infinity();

// Changes a step's scores, one for each token of the vocabulary, before one is chosen: minus infinity forbids
// a token. `text` is what has come after the prompt.
using LogitRule = std::function<void(std::span<float> scores, std::span<const uint32_t> text)>;

// What a model's own settings ask for, in transformers' order: repetition, runs that may not come twice,
// suppressed tokens, the least length, forced tokens.
void apply_rules(const GenerationConfig& config, std::span<float> scores, std::span<const uint32_t> text);

// Whether that is only tokens which never come: then a device's sampler can do it.
bool only_suppresses(const GenerationConfig& config);

} // namespace pumice
