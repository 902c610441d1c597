// Which texts have a row in the next step, where not all have one.
#include <algorithm>

#include "step/batch.h"

namespace pumice {

// On CPU drivers, a text's bits do not depend on who has rows beside it. What a step takes is not known where
// several are submitted together, nor how long a text may wait where that is limited.
void Batch::prepare_turns() {
  const bool same_bits = runner_->model().context().profile.cpu;
  if (!same_bits || runner_->staged() || size().drafts > 0) return;
  if (options_.steps_per_submit > 1 || pace_.limited()) return;
  std::vector<uint32_t> sizes;
  for (const Bucket& bucket : step_buckets(size(), false)) sizes.push_back(bucket.tokens);
  turns_ = RowTurns(std::move(sizes));
}

// How many of so many texts have a row.
size_t Batch::next_texts(size_t texts) {
  if (turns_) texts = turns_->rows(static_cast<uint32_t>(texts));
  return options_.most_texts > 0 ? std::min<size_t>(texts, options_.most_texts) : texts;
}

// Chooses those who have a row: whose last one is the longest ago.
void Batch::take_turns() {
  std::vector<Sequence*> texts;
  bool all_go_on = may_wait_;
  for (Sequence& sequence : sequences_) {
    sequence.rests = false;
    if (sequence.slot < 0) continue;
    all_go_on = all_go_on && sequence.next + 1 == sequence.tokens().size();
    texts.push_back(&sequence);
  }
  if (!all_go_on || texts.size() < 2) return;
  const size_t most = next_texts(texts.size());
  std::ranges::stable_sort(texts, {}, &Sequence::had_turn);
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i]->rests = i >= most;
    if (!texts[i]->rests) texts[i]->had_turn = ++turns_taken_;
  }
}

} // namespace pumice
