#include <algorithm>

#include "step/batch.h"
#include "step/drafts/model_drafter.h"

namespace pumice {

Status Batch::prepare_drafts(std::shared_ptr<const Model> draft_model) {
  if (draft_model && draft_model->options().tower == Tower::prediction) {
    PUMICE_TRY(std::unique_ptr<LayerDrafter> layer,
               LayerDrafter::create(std::move(draft_model), runner_->model(), size()));
    layer_drafter_ = layer.get();
    hidden_name_ = LayerDrafter::hidden_name(runner_->model());
    model_drafter_ = std::move(layer);
  } else if (draft_model) {
    PUMICE_TRY(model_drafter_, ModelDrafter::create(std::move(draft_model), runner_->model(), size()));
  }
  for (const Bucket& bucket : step_buckets(size(), false)) {
    PUMICE_TRY(const double guess, runner_->guessed_step_seconds(bucket.tokens));
    draft_costs_.guess(bucket.tokens, guess);
  }
  return {};
}

// How many tokens of each text the next step guesses at.
uint32_t Batch::choose_drafts() {
  if (size().drafts == 0) return 0;
  const double of_model = model_drafter_ && may_wait_ && !drafter_failed_ ? model_drafter_->chance() : 0;
  bool by_model = false;
  uint32_t forced = 0;
  std::vector<double> chances;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    const auto end = static_cast<uint32_t>(sequence.tokens().size());
    const uint32_t unread = end - std::min(sequence.next, end);
    if (unread > 1 + sequence.forced) return 0; // a prompt comes first
    forced += unread - std::min(unread, 1u);
    double chance = 0;
    if (sequence.drafter && sequence.tokens().size() + 1 < sequence.limit) {
      sequence.drafter->follow(sequence.tokens(), sequence.forced);
      // A prediction layer cannot look up the embeddings of pictures, nor guess behind what no step has read.
      const double own = layer_drafter_ && (sequence.embeddings || unread > 1) ? 0 : of_model;
      chance = std::max(sequence.drafter->chance(), own);
      sequence.drafted_by_model = own > sequence.drafter->chance();
      by_model = by_model || sequence.drafted_by_model;
    }
    chances.push_back(chance);
  }
  if (chances.empty()) return 0;
  uint32_t most = size().drafts;
  if (forced > 0) // the bits of such a step are those of one row
    most =
        std::min(most, room_beside_forced(chances.size() + forced) / static_cast<uint32_t>(chances.size()));
  if (options_.always_draft) return most;
  double each = 0;
  if (by_model) {
    const std::optional<double> measured = model_drafter_->seconds();
    each = measured ? *measured : draft_costs_.expected(model_drafter_->guessed_seconds());
  }
  return draft_costs_.count(chances, most, each, forced);
}

// Guesses at the next tokens of the texts that go on.
Status Batch::draft(uint32_t most) {
  std::vector<Sequence*> by_model;
  std::vector<Drafter::Text> texts;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0 || !sequence.drafter) continue;
    // The token at the limit is the last: none is guessed at behind it.
    const auto left = static_cast<uint32_t>(sequence.limit - sequence.tokens().size());
    const uint32_t possible = std::min(most, left - std::min(left, 1u));
    if (!sequence.drafted_by_model) {
      sequence.drafts = sequence.drafter->draft(possible);
    } else if (possible > 0) {
      by_model.push_back(&sequence);
      const auto slot = static_cast<uint32_t>(sequence.slot);
      texts.push_back({sequence.tokens(), &sequence.sampling, possible, slot});
    }
  }
  if (texts.empty()) return {};
  PUMICE_TRY(std::vector<std::vector<uint32_t>> drafts, model_drafter_->draft(texts));
  for (size_t i = 0; i < texts.size(); ++i) by_model[i]->drafts = std::move(drafts[i]);
  return {};
}

// Hands the prediction layer what the last layer gave for a text's tokens in the last step, which was read.
// Nothing for rows whose guess did not hold.
Status Batch::hand_hidden(const Sequence& sequence, bool composed) {
  if (!layer_drafter_ || drafter_failed_ || !may_wait_) return {};
  if (sequence.slot < 0 || !sequence.drafter || sequence.embeddings) return {};
  if (!in_flight_.empty()) return {}; // a later step has written over it
  const auto tokens = static_cast<uint32_t>(sequence.tokens().size());
  TextRows rows;
  if (composed) {
    const auto found = std::ranges::find(text_rows_, sequence.id, &TextRows::id);
    if (found == text_rows_.end()) return {};
    rows = *found;
  } else {
    const auto found = std::ranges::find(rows_, &sequence);
    if (found == rows_.end() || sequence.next + 1 != tokens) return {};
    rows = {sequence.id, static_cast<uint32_t>(found - rows_.begin()), 1, tokens - 2};
  }
  if (rows.position + 1 >= tokens) return {};
  rows.count = std::min(rows.count, tokens - 1 - rows.position);
  PUMICE_TRY(const std::vector<float> hidden, runner_->read(hidden_name_, rows.count, rows.first));
  return layer_drafter_->follow(static_cast<uint32_t>(sequence.slot), sequence.tokens(), rows.position,
                                hidden);
}

// An error of the guesses loses no token that was read: the texts go on without them.
void Batch::follow_hidden(const Sequence& sequence, bool composed) {
  if (!hand_hidden(sequence, composed).ok()) drafter_failed_ = true;
}

// After a step with guesses: goes back to the last token that was sampled behind one that holds.
void Batch::forget_drafts(Sequence& sequence) {
  const auto count = static_cast<uint32_t>(sequence.tokens().size());
  Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
  slot.written_end = std::max(slot.written_end, sequence.next);
  sequence.next = sequence.computed = count - 1;
  sampling_state_.set_count(static_cast<uint32_t>(sequence.slot), count);
}

} // namespace pumice
