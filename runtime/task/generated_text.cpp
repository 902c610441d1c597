#include "task/generated_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

SamplingParams usual_sampling() {
  SamplingParams usual;
  usual.temperature = 0.8f;
  usual.top_k = 40;
  usual.top_p = 0.95f;
  usual.min_p = 0.05f;
  return usual;
}

Status set_dry_breakers(SamplingParams& params, std::span<const std::string> breakers,
                        const Tokenizer* tokenizer) {
  params.dry_breakers.clear();
  if (params.dry_multiplier <= 0 || !tokenizer) return {};
  static const std::vector<std::string> usual = {"\n", ":", "\"", "*"};
  const std::span<const std::string> strings = breakers.empty() ? std::span(usual) : breakers;
  std::vector<bool> found(strings.size());
  for (uint32_t id = 0; id < std::min(tokenizer->vocabulary_size(), SAMPLING_BREAKERS); ++id) {
    const std::string text = tokenizer->decode(std::span(&id, 1), true);
    bool breaks = false;
    for (size_t i = 0; i < strings.size(); ++i) {
      if (text.find(strings[i]) != std::string::npos) breaks = found[i] = true;
    }
    if (breaks) params.dry_breakers.push_back(id);
  }
  const auto missing = std::ranges::find(found, false);
  if (breakers.empty() || missing == found.end()) return {};
  return Error{Code::invalid_argument,
               fmt::format("no token contains the DRY sequence breaker '{}': give a shorter string",
                           strings[static_cast<size_t>(missing - found.begin())])};
}

} // namespace pumice
