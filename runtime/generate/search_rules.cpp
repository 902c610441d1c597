#include "generate/search_rules.h"

#include <algorithm>
#include <set>

namespace pumice {

namespace {

// Tokens that would complete an n-gram that occurs already.
void add_repeated(uint32_t size, std::span<const uint32_t> all, std::set<uint32_t>& forbidden) {
  if (all.size() + 1 < size) return;
  const std::span<const uint32_t> last = all.last(size - 1);
  for (size_t at = 0; at + size <= all.size(); ++at) {
    if (std::ranges::equal(all.subspan(at, size - 1), last)) forbidden.insert(all[at + size - 1]);
  }
}

} // namespace

SearchRules search_rules(const GenerationConfig& config, std::span<const uint32_t> text) {
  SearchRules rules;
  // As in transformers, rules change log-probabilities with several beams, and logits with one.
  rules.after_softmax = config.beams > 1;
  if (text.empty()) rules.forced = config.forced_first;
  if (config.forced_last && text.size() + 1 == config.max_tokens) rules.forced = config.forced_last;
  if (rules.forced) return rules;
  std::set<uint32_t> forbidden(config.suppressed.begin(), config.suppressed.end());
  std::vector<uint32_t> all = config.prompt;
  all.insert(all.end(), text.begin(), text.end());
  if (config.no_repeat_ngram > 0) add_repeated(config.no_repeat_ngram, all, forbidden);
  if (text.size() < config.min_tokens) forbidden.insert(config.ends.begin(), config.ends.end());
  if (text.empty()) forbidden.insert(config.suppressed_first.begin(), config.suppressed_first.end());
  rules.forbidden.assign(forbidden.begin(), forbidden.end());
  if (config.repetition_penalty == 1) return rules;
  rules.penalty = config.repetition_penalty;
  for (uint32_t token : std::set<uint32_t>(all.begin(), all.end())) {
    if (!forbidden.contains(token)) rules.penalised.push_back(token);
  }
  return rules;
}

} // namespace pumice
