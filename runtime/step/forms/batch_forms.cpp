// What a batch does for texts that have a form.
#include <algorithm>
#include <cmath>

#include "step/batch.h"

namespace pumice {

namespace {

// What is sampled depends on more than the token, or more is asked for than the token.
bool needs_logits(const SamplingParams& sampling) {
  return sampling.mirostat != 0 || sampling.log_probabilities > 0 ||
         std::ranges::any_of(sampling.logit_biases, [](const LogitBias& each) {
           return std::isinf(each.bias) || std::isnan(each.bias);
         });
}

} // namespace

// Whether the host says which tokens of some text may be drawn.
bool Batch::masks_by_host() const {
  return std::ranges::any_of(rows_,
                             [](const Sequence* row) { return row && row->form && !row->form->on_device(); });
}

// Writes which tokens the next step may draw.
Status Batch::write_masks() {
  for (Sequence* row : rows_) {
    if (row->form) PUMICE_CHECK(row->form->write_mask(sampling_state_, static_cast<uint32_t>(row->slot)));
  }
  return {};
}

// After tokens were read: those that must follow them need no steps of their own. Where the device goes on by
// itself, it has begun with some of them already; then no further steps are submitted until those are read.
Status Batch::append_forced_tokens() {
  if (options_.forced_tokens == ForcedTokens::one_by_one || options_.logits.buffer) return {};
  const auto ahead = static_cast<size_t>(std::ranges::count_if(in_flight_, &InFlightStep::outputs));
  std::vector<std::vector<uint32_t>> forced(rows_.size());
  size_t rows = 0, more = 0;
  bool stops = false;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i]) continue;
    const Sequence& sequence = *rows_[i];
    ++rows;
    if (!sequence.form || needs_logits(sequence.sampling)) continue;
    forced[i] = sequence.form->forced(sequence.limit - sequence.tokens().size());
    const std::vector<uint32_t>& ends = sequence.sampling.stop_tokens;
    const bool stop = !forced[i].empty() && std::ranges::find(ends, forced[i].back()) != ends.end();
    more += forced[i].size() - std::min(forced[i].size(), ahead + size_t{stop});
    stops = stops || (stop && forced[i].size() == 1);
  }
  if (more == 0 && !(stops && ahead == 0)) return {};
  PUMICE_TRY(const bool pays, pays_together(rows, more));
  if (!pays) return {};
  changed_ = true;
  for (size_t i = 0; i < rows_.size() && ahead == 0; ++i) append_forced(rows_[i], forced[i]);
  return {};
}

// Whether a step of `rows` rows and so many more takes less time than the steps that would each have one of
// them.
Result<bool> Batch::pays_together(size_t rows, size_t more) {
  if (options_.forced_tokens == ForcedTokens::together || more == 0) return true;
  const auto seconds = [&](size_t count) {
    return runner_->guessed_step_seconds(static_cast<uint32_t>(std::min<size_t>(count, size().chunk)));
  };
  PUMICE_TRY(const double few, seconds(rows));
  PUMICE_TRY(const double all, seconds(rows + more));
  return all * static_cast<double>(rows) < few * static_cast<double>(rows + more);
}

void Batch::append_forced(Sequence*& row, std::span<const uint32_t> tokens) {
  if (tokens.empty()) return;
  Sequence& sequence = *row;
  const auto slot = static_cast<uint32_t>(sequence.slot);
  const std::vector<uint32_t>& ends = sequence.sampling.stop_tokens;
  FinishReason reason = FinishReason::none;
  for (const uint32_t token : tokens) {
    sequence.tokens().push_back(token);
    sampling_state_.append(slot, token);
    const bool stops = std::ranges::find(ends, token) != ends.end();
    if (!stops) (void)sequence.form->follow(sequence.tokens()); // it was tried
    reason = stops ? FinishReason::stop : full(sequence);
    results_.push_back({sequence.id, token, reason, {}, sequence.reused});
  }
  if (reason != FinishReason::none) {
    release(*std::exchange(row, nullptr));
  } else {
    sequence.form->place(sampling_state_, slot, form_tables_);
  }
}

} // namespace pumice
