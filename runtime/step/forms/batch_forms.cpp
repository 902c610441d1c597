// What a batch does for texts whose form the host follows.
#include <algorithm>
#include <cmath>

#include "step/batch.h"

namespace pumice {

namespace {

// A step of more rows than these may have other kernels than one of a row has, whose bits differ; on CPU
// drivers there is one kernel for all.
constexpr uint32_t few_rows = 8;

// What is sampled depends on more than what may follow, or more is asked for than the token.
bool needs_logits(const SamplingParams& sampling) {
  return sampling.mirostat != 0 || sampling.log_probabilities > 0 ||
         std::ranges::any_of(sampling.logit_biases,
                             [](const LogitBias& each) { return !std::isfinite(each.bias); });
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

// How many rows the next step can have beside a row of each text.
uint32_t Batch::room_for_forced() const {
  uint32_t most = size().chunk;
  if (!runner_->model().context().profile.cpu) {
    most = 1;
    for (const Bucket& bucket : step_buckets(size(), false)) {
      if (bucket.tokens <= few_rows) most = std::max(most, bucket.tokens);
    }
  }
  return most - std::min(most, static_cast<uint32_t>(rows_.size()));
}

// After tokens were read: those that must follow need no steps of their own.
void Batch::append_forced_tokens() {
  if (!options_.forced_tokens || options_.logits.buffer || !masks_by_host()) return;
  if (std::ranges::any_of(in_flight_, &InFlightStep::outputs)) return;
  uint32_t room = room_for_forced();
  for (Sequence*& row : rows_) {
    if (!row || !row->form || needs_logits(row->sampling)) continue;
    const size_t left = row->limit - row->tokens().size();
    const std::vector<uint32_t> tokens = row->form->forced(std::min<size_t>(left, room + 1));
    if (tokens.empty()) continue;
    const std::vector<uint32_t>& ends = row->sampling.stop_tokens;
    const bool ended = tokens.size() == left || std::ranges::find(ends, tokens.back()) != ends.end();
    const size_t taken = ended ? tokens.size() : std::min<size_t>(tokens.size(), room);
    if (!ended) room -= static_cast<uint32_t>(taken); // a text that has ended has no rows
    append_forced(row, std::span(tokens).first(taken));
  }
}

void Batch::append_forced(Sequence*& row, std::span<const uint32_t> tokens) {
  Sequence& sequence = *row;
  const std::vector<uint32_t>& ends = sequence.sampling.stop_tokens;
  FinishReason reason = FinishReason::none;
  for (const uint32_t token : tokens) {
    sequence.tokens().push_back(token);
    sampling_state_.append(static_cast<uint32_t>(sequence.slot), token);
    const bool stops = std::ranges::find(ends, token) != ends.end();
    if (!stops) (void)sequence.form->follow(sequence.tokens()); // it was tried
    reason = stops ? FinishReason::stop : full(sequence);
    results_.push_back({sequence.id, token, reason, {}, sequence.reused});
    changed_ = true;
  }
  if (reason != FinishReason::none) release(*std::exchange(row, nullptr));
}

} // namespace pumice
