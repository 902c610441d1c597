#include "step/continuation_scorer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "step/check_tokens.h"

namespace pumice {

namespace {

// Whether a sequence may not be able to go back to the end of the prefix after a continuation.
bool forgets(const Runner& runner) {
  return !runner.states().empty() ||
         std::ranges::any_of(runner.caches(), [](const CacheRef& cache) { return cache.layout.window > 0; });
}

} // namespace

Result<std::unique_ptr<ContinuationScorer>>
ContinuationScorer::create(std::shared_ptr<const Model> model, SessionSize size, AdapterChoice adapter) {
  RunnerOptions options;
  options.size = size;
  options.size.chunk = std::max(size.chunk, size.sequences);
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"log_likelihoods"};
  if (adapter.adapter) options.adapters = room_for(std::array{adapter.adapter}, 1);
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(options)));
  for (uint32_t sequence = 0; sequence < runner->size().sequences; ++sequence)
    PUMICE_CHECK(runner->set_adapter(sequence, adapter));
  std::unique_ptr<ContinuationScorer> scorer(new ContinuationScorer(std::move(runner)));
  scorer->adapter_ = std::move(adapter);
  return scorer;
}

ContinuationScorer::ContinuationScorer(std::unique_ptr<Runner> runner)
    : runner_(std::move(runner)), slots_(runner_->size().sequences) {
  if (slots_.size() > 1 && forgets(*runner_)) first_slot_ = 1;
}

Status ContinuationScorer::check(std::span<const uint32_t> prefix,
                                 std::span<const std::vector<uint32_t>> continuations) const {
  if (prefix.empty()) {
    return Error{Code::invalid_argument,
                 "there is nothing to continue: a continuation is scored after at least one token"};
  }
  const Model& model = runner_->model();
  PUMICE_CHECK(check_tokens(model, prefix, model.shape().vocabulary));
  for (size_t i = 0; i < continuations.size(); ++i) {
    if (continuations[i].empty())
      return Error{Code::invalid_argument, fmt::format("continuation {} is empty: it has no score", i)};
    PUMICE_CHECK(check_tokens(model, continuations[i], model.shape().vocabulary));
    const size_t tokens = prefix.size() + continuations[i].size() - 1;
    if (tokens <= size().context) continue;
    return Error{Code::context_full,
                 fmt::format("continuation {} of {} tokens after {} needs a context of {}, and it has {}", i,
                             continuations[i].size(), prefix.size(), tokens, size().context)};
  }
  return {};
}

// How many of these tokens need not be computed in a slot.
uint32_t ContinuationScorer::computed(const Slot& slot, std::span<const uint32_t> tokens) const {
  const auto common =
      static_cast<uint32_t>(std::ranges::mismatch(slot.cached, tokens).in1 - slot.cached.begin());
  return runner_->resume_point(common, slot.written_end, slot.states);
}

Status ContinuationScorer::adopt(const CachedSequence& from, std::span<const uint32_t> tokens,
                                 uint32_t written_end) {
  const auto count = static_cast<uint32_t>(tokens.size());
  if (count > size().context || computed(slots_[0], tokens) == count) return {};
  slots_[0] = {};
  PUMICE_TRY(const bool copied, copy_caches(from, {*runner_, 0}, count, written_end));
  if (copied) slots_[0] = {{tokens.begin(), tokens.end()}, written_end, {count, count}};
  return {};
}

// Where they cannot be copied, the slot computes them itself.
Status ContinuationScorer::copy_prefix(std::span<const uint32_t> prefix, uint32_t slot) {
  const auto count = static_cast<uint32_t>(prefix.size());
  if (slot == 0 || computed(slots_[slot], prefix) == count || computed(slots_[0], prefix) < count) return {};
  slots_[slot] = {};
  PUMICE_TRY(const bool copied, copy_caches({*runner_, 0}, {*runner_, slot}, count, slots_[0].written_end));
  if (copied) slots_[slot] = {{prefix.begin(), prefix.end()}, slots_[0].written_end, {count, count}};
  return {};
}

Status ContinuationScorer::run(std::span<const Text> texts, const Progress& progress) {
  struct Row {
    StepToken token;
    std::vector<float>* scores = nullptr;
  };
  std::vector<Row> rows;
  for (const Text& text : texts) {
    Slot& slot = slots_[text.slot];
    // The token before the first scored one is computed in any case.
    const uint32_t wanted = text.first_scored == 0 ? 0 : text.first_scored - 1;
    const auto last = static_cast<uint32_t>(text.tokens.size()) - (text.scores ? 1 : 0);
    const uint32_t first = computed(slot, std::span(text.tokens).first(text.scores ? wanted : last));
    if (first == 0) slot = {};
    for (uint32_t at = first; at < last; ++at) {
      const bool scored = text.scores && at >= wanted;
      StepToken row{text.tokens[at], at, text.slot, 0, scored};
      if (scored) row.target = text.tokens[at + 1];
      rows.push_back({row, scored ? text.scores : nullptr});
    }
    if (first == last) continue;
    slot.written_end = std::max(slot.written_end, last);
    slot.states.latest = last;
    slot.cached.clear(); // until they are computed
  }
  std::vector<StepToken> step;
  for (size_t begin = 0; begin < rows.size();) {
    const size_t count = std::min<size_t>(size().chunk, rows.size() - begin);
    step.clear();
    uint32_t outputs = 0;
    for (size_t i = begin; i < begin + count; ++i) {
      step.push_back(rows[i].token);
      outputs += rows[i].token.output;
    }
    PUMICE_CHECK(runner_->write_step(step));
    PUMICE_TRY(const Completion done, runner_->submit(static_cast<uint32_t>(count)));
    PUMICE_CHECK(done.wait());
    if (outputs > 0) {
      PUMICE_TRY(const std::vector<float> values, runner_->read("log_likelihoods", outputs));
      size_t next = 0;
      for (size_t i = begin; i < begin + count; ++i) {
        if (rows[i].scores) rows[i].scores->push_back(values[next++]);
      }
    }
    begin += count;
    if (progress && !progress(begin, rows.size()))
      return Error{Code::cancelled, "scoring continuations was cancelled"};
  }
  for (const Text& text : texts) {
    const auto last = static_cast<ptrdiff_t>(text.tokens.size()) - (text.scores ? 1 : 0);
    slots_[text.slot].cached.assign(text.tokens.begin(), text.tokens.begin() + last);
  }
  return {};
}

Result<ContinuationScores> ContinuationScorer::score(std::span<const uint32_t> prefix,
                                                     std::span<const std::vector<uint32_t>> continuations,
                                                     const Progress& progress) {
  PUMICE_CHECK(check(prefix, continuations));
  // The last token of the prefix is a part of each continuation: it gives the first score.
  const std::span<const uint32_t> shared = prefix.first(prefix.size() - 1);
  ContinuationScores scores(continuations.size());
  const size_t room = slots_.size() - first_slot_;
  for (size_t begin = 0; begin < continuations.size(); begin += room) {
    const size_t count = std::min(room, continuations.size() - begin);
    if (!shared.empty() && (count > 1 || first_slot_ > 0)) {
      const Text whole{0, {shared.begin(), shared.end()}, static_cast<uint32_t>(shared.size()), nullptr};
      PUMICE_CHECK(run(std::span(&whole, 1), progress));
    }
    std::vector<Text> texts;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<uint32_t>& continuation = continuations[begin + i];
      Text& text = texts.emplace_back();
      text.slot = first_slot_ + static_cast<uint32_t>(i);
      text.tokens.assign(prefix.begin(), prefix.end());
      text.tokens.insert(text.tokens.end(), continuation.begin(), continuation.end());
      text.first_scored = static_cast<uint32_t>(prefix.size());
      text.scores = &scores[begin + i];
      PUMICE_CHECK(copy_prefix(shared, text.slot));
    }
    PUMICE_CHECK(run(texts, progress));
  }
  return scores;
}

} // namespace pumice
