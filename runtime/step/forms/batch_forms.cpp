// What a batch does for texts whose form the host follows.
#include <algorithm>
#include <cmath>

#include "kernel/choices.h"
#include "step/batch.h"

namespace pumice {

namespace {

constexpr uint32_t no_token = UINT32_MAX;

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

// Writes which tokens the next step may draw. A guess behind which that is not known is one that does not
// hold: an error of the form is one only if its text comes there.
Status Batch::write_masks() {
  size_t begin = 0;
  for (Sequence* row : rows_) {
    if (!row->form) continue;
    const auto slot = static_cast<uint32_t>(row->slot);
    PUMICE_CHECK(row->form->write_mask(sampling_state_, slot));
    const size_t drafts = row->drafts.size();
    const size_t written = row->form->write_draft_masks(sampling_state_, slot, begin, drafts);
    if (written < drafts) row->drafts[written] = no_token;
    begin += drafts * row->form->mask_words();
  }
  return {};
}

// Before a step with guesses at a text that has a form: leaves out those that do not fit.
void Batch::keep_to_form(Sequence& sequence) {
  const size_t fit = sequence.form->follow_drafts(sequence.drafts);
  const std::vector<uint32_t>& ends = sequence.sampling.stop_tokens;
  sequence.refused =
      fit < sequence.drafts.size() && std::ranges::find(ends, sequence.drafts[fit]) == ends.end();
  sequence.drafts.resize(fit);
  sequence.form->place_drafts(sampling_state_, static_cast<uint32_t>(sequence.slot));
}

// How many rows the next step can have beside so many, if tokens of it are not drawn. A step of more than few
// rows may have other kernels than one of a row has, whose bits differ; on CPU drivers there is one for all.
uint32_t Batch::room_beside_forced(size_t rows) const {
  uint32_t most = size().chunk;
  if (!runner_->model().context().profile.cpu) {
    most = 1;
    for (const Bucket& bucket : step_buckets(size(), false)) {
      if (bucket.tokens <= few_rows) most = std::max(most, bucket.tokens);
    }
  }
  return most - static_cast<uint32_t>(std::min<size_t>(most, rows));
}

// After tokens were read: those that must follow need no steps of their own.
void Batch::append_forced_tokens() {
  if (!options_.forced_tokens || options_.logits.buffer || !masks_by_host()) return;
  if (std::ranges::any_of(in_flight_, &InFlightStep::outputs)) return;
  uint32_t room = room_beside_forced(rows_.size());
  for (Sequence*& row : rows_) {
    if (!row || !row->form || needs_logits(row->sampling)) continue;
    const size_t left = row->limit - row->tokens().size();
    const std::vector<uint32_t> tokens = row->form->forced(std::min<size_t>(left, room + 1));
    if (tokens.empty()) continue;
    const std::vector<uint32_t>& ends = row->sampling.stop_tokens;
    const bool ended = tokens.size() == left || std::ranges::find(ends, tokens.back()) != ends.end();
    const size_t taken = ended ? tokens.size() : std::min<size_t>(tokens.size(), room);
    row->forced = static_cast<uint32_t>(taken);
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
