#pragma once

#include <span>

#include "generate/generation_config.h"
#include "kernel/search/search.h"

namespace pumice {

// The rules of a model's settings for the token after `text`, which has no prompt: what apply_rules() does to
// scores, in the form that the device applies.
SearchRules search_rules(const GenerationConfig& config, std::span<const uint32_t> text);

} // namespace pumice
