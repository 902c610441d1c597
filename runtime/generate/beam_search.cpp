#include "generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace pumice {

float score_of(float log_probability, size_t length, const GenerationConfig& config) {
  const size_t written = std::max<size_t>(length, config.forced_tokens + size_t{1}) - config.forced_tokens;
  return log_probability / std::pow(static_cast<float>(written), config.length_penalty);
}

BeamSearch::BeamSearch(const GenerationConfig& config, std::vector<Term> terms)
    : config_(config), terms_(std::move(terms)), running_(1) {}

size_t BeamSearch::wanted() const {
  // Enough that, even if every beam takes every end token, there are enough other continuations.
  return std::max<size_t>(2, 1 + config_.ends.size()) * config_.beams;
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

// Whether texts that end now still count.
bool BeamSearch::takes_ends() const {
  const bool full = finished_.size() == config_.beams && config_.early_stopping == EarlyStopping::yes;
  return !full && !closed_;
}

BeamSearch::Choice BeamSearch::choose(std::span<const Continuation> best, bool last) const {
  Choice choice;
  for (size_t i = 0; i < std::min(best.size(), wanted()); ++i) {
    if (!last && !is_end(best[i].token)) {
      if (choice.beams.size() < config_.beams) choice.beams.push_back(best[i]);
    } else if (i < config_.beams && takes_ends()) {
      choice.ended.push_back(best[i]);
    }
  }
  return choice;
}

BeamSearch::Candidates BeamSearch::with_terms(std::span<const Continuation> best) const {
  Candidates candidates;
  for (const Term& term : terms_) candidates.wanted += term.size();
  candidates.groups = std::min<size_t>(config_.beams, candidates.wanted + 1);
  for (const Continuation& each : best) {
    std::vector<uint32_t> text = running_[each.beam].tokens;
    text.push_back(each.token);
    const size_t tokens = term_state(terms_, text).tokens;
    candidates.all.push_back({each, tokens, tokens * (candidates.groups - 1) / candidates.wanted});
    candidates.most = std::max(candidates.most, tokens);
  }
  return candidates;
}

// Texts that lack a term count only if there is nothing better.
BeamSearch::Choice BeamSearch::choose_last(const Candidates& candidates) const {
  Choice choice;
  for (const Candidate& each : candidates.all) {
    const bool counts =
        each.tokens == candidates.most && (candidates.most == candidates.wanted || finished_.empty());
    if (counts && takes_ends() && choice.ended.size() < config_.beams) choice.ended.push_back(each.next);
  }
  return choice;
}

void BeamSearch::share_out(const Candidates& candidates, std::vector<bool>& taken, Choice& choice) const {
  const std::vector<Candidate>& all = candidates.all;
  const size_t share = config_.beams / candidates.groups;
  for (size_t group = candidates.groups; group-- > 0;) {
    size_t seen = 0, of_group = 0;
    for (size_t i = 0; i < all.size(); ++i) of_group += taken[i] && all[i].group == group;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].group != group) continue;
      const bool within = seen++ < share;
      if (is_end(all[i].next.token)) {
        if (within && takes_ends()) choice.ended.push_back(all[i].next);
      } else if (!taken[i] && of_group < share && choice.beams.size() < config_.beams) {
        taken[i] = true;
        choice.beams.push_back(all[i].next);
        ++of_group;
      }
    }
  }
}

BeamSearch::Choice BeamSearch::choose_with_terms(std::span<const Continuation> best, bool last) const {
  const Candidates candidates = with_terms(best);
  if (last) return choose_last(candidates);
  const std::vector<Candidate>& all = candidates.all;
  Choice choice;
  std::vector<bool> taken(all.size());
  const auto take = [&](size_t i) {
    taken[i] = true;
    choice.beams.push_back(all[i].next);
  };
  // The text that contains most.
  for (size_t i = 0; i < all.size() && choice.beams.empty(); ++i) {
    if (all[i].tokens == candidates.most && !is_end(all[i].next.token)) take(i);
  }
  share_out(candidates, taken, choice);
  // Of what is left over the best.
  for (size_t i = 0; i < all.size() && choice.beams.size() < config_.beams; ++i) {
    if (!taken[i] && !is_end(all[i].next.token)) take(i);
  }
  std::ranges::stable_sort(choice.beams, std::greater(), &Continuation::score);
  return choice;
}

std::vector<uint32_t> BeamSearch::advance(std::span<const Continuation> best) {
  const size_t length = running_[0].tokens.size() + 1;
  const bool last = length >= config_.max_tokens;
  const Choice choice = terms_.empty() ? choose(best, last) : choose_with_terms(best, last);
  for (const Continuation& each : choice.ended) finish(each, length);

  std::vector<Beam> next;
  std::vector<uint32_t> parents;
  for (const Continuation& each : choice.beams) {
    Beam beam{running_[each.beam].tokens, each.score};
    beam.tokens.push_back(each.token);
    next.push_back(std::move(beam));
    parents.push_back(each.beam);
  }
  if (!next.empty()) running_ = std::move(next);
  closed_ = closed_ || !can_improve(length);
  const bool enough = finished_.size() == config_.beams && config_.early_stopping == EarlyStopping::yes;
  done_ = choice.beams.empty() || closed_ || enough;
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
