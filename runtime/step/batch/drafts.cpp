#include <algorithm>

#include "step/batch.h"

namespace pumice {

Status Batch::prepare_drafts(std::shared_ptr<const Model> draft_model) {
  if (draft_model) {
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
  const double of_model = model_drafter_ && may_wait_ ? model_drafter_->chance() : 0;
  bool by_model = false;
  std::vector<double> chances;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    if (sequence.next + 1 < sequence.tokens().size()) return 0; // a prompt comes first
    double chance = 0;
    if (sequence.drafter && sequence.tokens().size() + 1 < sequence.limit) {
      sequence.drafter->follow(sequence.tokens());
      chance = std::max(sequence.drafter->chance(), of_model);
      sequence.drafted_by_model = of_model > sequence.drafter->chance();
      by_model = by_model || sequence.drafted_by_model;
    }
    chances.push_back(chance);
  }
  if (options_.always_draft) return size().drafts;
  if (chances.empty()) return 0;
  double each = 0;
  if (by_model) {
    const std::optional<double> measured = model_drafter_->seconds();
    each = measured ? *measured : draft_costs_.expected(model_drafter_->guessed_seconds());
  }
  return draft_costs_.count(chances, size().drafts, each);
}

// Guesses at the next tokens of the texts that go on.
Status Batch::draft(uint32_t most) {
  std::vector<Sequence*> by_model;
  std::vector<ModelDrafter::Text> texts;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0 || !sequence.drafter) continue;
    // The token at the limit is the last: none is guessed at behind it.
    const auto left = static_cast<uint32_t>(sequence.limit - sequence.tokens().size());
    const uint32_t possible = std::min(most, left - std::min(left, 1u));
    if (!sequence.drafted_by_model) {
      sequence.drafts = sequence.drafter->draft(possible);
    } else if (possible > 0) {
      by_model.push_back(&sequence);
      texts.push_back({sequence.tokens(), &sequence.sampling, possible});
    }
  }
  if (texts.empty()) return {};
  PUMICE_TRY(std::vector<std::vector<uint32_t>> drafts, model_drafter_->draft(texts));
  for (size_t i = 0; i < texts.size(); ++i) by_model[i]->drafts = std::move(drafts[i]);
  return {};
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
