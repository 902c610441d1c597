#include "generate/beam_search.h"

#include <algorithm>
#include <cmath>

namespace pumice {

BeamSearch::BeamSearch(const GenerationConfig& config) : config_(config), running_(1) {}

size_t BeamSearch::wanted() const {
  // Enough that, even if every beam takes every end token, there are enough other continuations.
  return std::max<size_t>(2, 1 + config_.ends.size()) * config_.beams;
}

float BeamSearch::penalized(float score, size_t length) const {
  const size_t own = std::max<size_t>(length, config_.forced_tokens + size_t{1}) - config_.forced_tokens;
  return score / std::pow(static_cast<float>(own), config_.length_penalty);
}

bool BeamSearch::is_end(uint32_t token) const {
  return std::ranges::find(config_.ends, token) != config_.ends.end();
}

void BeamSearch::finish(const Continuation& last, size_t length) {
  Hypothesis text{running_[last.beam].tokens, penalized(last.score, length), true};
  text.tokens.push_back(last.token);
  const auto worse = [&](const Hypothesis& other) { return other.score < text.score; };
  finished_.insert(std::ranges::find_if(finished_, worse), std::move(text));
  if (finished_.size() > config_.beams) finished_.pop_back();
}

// Whether a beam could still become better than the finished texts, if all its further tokens had
// probability 1.
bool BeamSearch::can_improve(size_t length) const {
  if (finished_.size() < config_.beams) return true;
  if (running_.empty()) return false;
  const bool longest = config_.early_stopping == EarlyStopping::never && config_.length_penalty > 0;
  return penalized(running_[0].score, longest ? config_.max_tokens : length) > finished_.back().score;
}

std::vector<uint32_t> BeamSearch::advance(std::span<const Continuation> best) {
  const size_t length = running_[0].tokens.size() + 1;
  const bool last = length >= config_.max_tokens;
  const bool full = finished_.size() == config_.beams && config_.early_stopping == EarlyStopping::yes;
  std::vector<Continuation> chosen;
  std::vector<Continuation> ended;
  for (size_t i = 0; i < std::min(best.size(), wanted()); ++i) {
    if (!last && !is_end(best[i].token)) {
      if (chosen.size() < config_.beams) chosen.push_back(best[i]);
    } else if (i < config_.beams && !full && !closed_) {
      ended.push_back(best[i]);
    }
  }
  for (const Continuation& each : ended) finish(each, length);

  std::vector<Beam> next;
  std::vector<uint32_t> parents;
  for (const Continuation& each : chosen) {
    Beam beam{running_[each.beam].tokens, each.score};
    beam.tokens.push_back(each.token);
    next.push_back(std::move(beam));
    parents.push_back(each.beam);
  }
  if (!next.empty()) running_ = std::move(next);
  closed_ = closed_ || !can_improve(length);
  const bool enough = finished_.size() == config_.beams && config_.early_stopping == EarlyStopping::yes;
  done_ = chosen.empty() || closed_ || enough;
  return parents;
}

std::vector<Hypothesis> BeamSearch::results(size_t count) const {
  std::vector<Hypothesis> texts = finished_;
  if (texts.empty()) {
    for (const Beam& beam : running_) {
      texts.push_back({beam.tokens, penalized(beam.score, std::max<size_t>(beam.tokens.size(), 1)), false});
    }
  }
  texts.resize(std::min(count, texts.size()));
  return texts;
}

} // namespace pumice
