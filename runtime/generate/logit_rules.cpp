#include "generate/logit_rules.h"

#include <algorithm>
#include <set>

namespace pumice {

namespace {

void penalize_repetition(float penalty, std::span<float> scores, std::span<const uint32_t> prompt,
                         std::span<const uint32_t> text) {
  std::set<uint32_t> seen(prompt.begin(), prompt.end());
  seen.insert(text.begin(), text.end());
  for (uint32_t token : seen) {
    float& score = scores[token];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

// Forbids tokens that would complete an n-gram that occurs already.
void forbid_repeated_runs(uint32_t size, std::span<float> scores, std::span<const uint32_t> prompt,
                          std::span<const uint32_t> text) {
  std::vector<uint32_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), text.begin(), text.end());
  if (all.size() + 1 < size) return;
  const std::span<const uint32_t> last = std::span(all).last(size - 1);
  for (size_t at = 0; at + size <= all.size(); ++at) {
    if (std::ranges::equal(std::span(all).subspan(at, size - 1), last))
      scores[all[at + size - 1]] = forbidden_score;
  }
}

void force(uint32_t token, std::span<float> scores) {
  std::ranges::fill(scores, forbidden_score);
  scores[token] = 0;
}

} // namespace

bool only_suppresses(const GenerationConfig& config) {
  return config.repetition_penalty == 1 && config.no_repeat_ngram == 0 && config.suppressed_first.empty() &&
         config.min_tokens == 0 && !config.forced_first && !config.forced_last;
}

void apply_rules(const GenerationConfig& config, std::span<float> scores, std::span<const uint32_t> text) {
  if (config.repetition_penalty != 1) {
    penalize_repetition(config.repetition_penalty, scores, config.prompt, text);
  }
  if (config.no_repeat_ngram > 0) forbid_repeated_runs(config.no_repeat_ngram, scores, config.prompt, text);
  for (uint32_t token : config.suppressed) scores[token] = forbidden_score;
  if (text.size() < config.min_tokens) {
    for (uint32_t token : config.ends) scores[token] = forbidden_score;
  }
  if (text.empty()) {
    for (uint32_t token : config.suppressed_first) scores[token] = forbidden_score;
    if (config.forced_first) force(*config.forced_first, scores);
  }
  if (config.forced_last && text.size() + 1 == config.max_tokens) force(*config.forced_last, scores);
}

} // namespace pumice
