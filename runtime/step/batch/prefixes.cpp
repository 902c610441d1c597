#include <algorithm>

#include "step/batch.h"
#include "step/batch/whole_pictures.h"

namespace pumice {

namespace {

// The fewest tokens of a beginning for which a sequence waits, until another one has read them, or takes the
// slot of a much longer text.
constexpr uint32_t least_shared = 32;

uint32_t common_prefix(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return static_cast<uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// What a prompt leaves out of earlier tokens, with which it has the first `kept` in common.
struct Gap {
  uint32_t forgotten = 0; // tokens of it
  uint32_t behind = 0;    // tokens behind it that both have; 0: there is no gap
};

Gap find_gap(std::span<const uint32_t> earlier, std::span<const uint32_t> prompt, uint32_t kept) {
  Gap best;
  if (prompt.size() < kept + least_shared || earlier.size() < kept + least_shared) return best;
  const std::span<const uint32_t> rest = prompt.subspan(kept), begin = rest.first(least_shared);
  for (auto from = earlier.begin() + kept;;) {
    const auto found = std::search(from, earlier.end(), begin.begin(), begin.end());
    if (found == earlier.end()) return best;
    const auto at = static_cast<uint32_t>(found - earlier.begin());
    const uint32_t behind = common_prefix(earlier.subspan(at), rest);
    if (behind > best.behind) best = {at - kept, behind};
    from = found + 1;
  }
}

} // namespace

Status Batch::assign_slots() {
  waiting_ = false;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot >= 0) continue;
    if (!runner_->has_place(sequence.adapter)) continue; // until another one's text ends
    const SharedPrefix prefix = may_wait_ || only_pages_ ? shared_prefix(sequence) : SharedPrefix();
    Slot* best = nullptr;
    uint32_t best_worth = 0;
    for (Slot& slot : slots_) {
      if (slot.busy) continue;
      // A sequence with another encoder input has other keys and values.
      const uint32_t reused = sequence.input ? 0 : reusable(slot, sequence);
      // A few tokens that all texts begin with are not worth a text that may go on. Where nothing is, the
      // slot that was not used for longest goes.
      const uint32_t worth = reused >= least_shared || 2 * reused >= slot.cached.size() ? reused : 0;
      if (best && (worth < best_worth || (worth == best_worth && slot.released >= best->released))) continue;
      best = &slot;
      best_worth = worth;
      sequence.reused = reused;
    }
    if (!best) return {};
    const auto slot = static_cast<uint32_t>(best - slots_.data());
    if (shift_ && may_wait_) PUMICE_CHECK(close_gap(slot, sequence));
    bool shares = prefix.tokens >= sequence.reused + least_shared;
    if (shares) {
      waiting_ = waiting_ || !prefix.computed;
      if (!prefix.computed) continue;
      if (!only_pages_) {
        PUMICE_TRY(shares, copy_prefix(prefix, slot));
      }
      if (shares) sequence.reused = prefix.tokens;
    }
    if (pool_.pages() > 0) {
      PUMICE_TRY(const bool taken, take_pages(sequence, slot, shares ? &prefix : nullptr));
      if (!taken) return {}; // until another text ends
    }
    PUMICE_CHECK(place(sequence, slot, sequence.reused));
  }
  return {};
}

// The longest beginning that a sequence with a slot has read or is about to read, or that a kept text has;
// with states, up to one of those that are kept of it. Pictures and an encoder's input are not shared.
Batch::SharedPrefix Batch::shared_prefix(const Sequence& sequence) {
  SharedPrefix best;
  if (sequence.input || sequence.embeddings || runner_->staged()) return best;
  const std::span<const uint32_t> prompt(sequence.tokens());
  // Without waiting for a copy: whole pages.
  const auto common_tokens = [&](std::span<const uint32_t> tokens) {
    const uint32_t common = common_prefix(tokens, prompt.first(prompt.size() - 1));
    return may_wait_ ? common : common / cache_page_positions * cache_page_positions;
  };
  for (KeptText& kept : kept_texts_) {
    if (kept.adapter != sequence.adapter) continue;
    const uint32_t common = common_tokens(kept.tokens);
    if (common > best.tokens) best = {nullptr, &kept, common, true};
  }
  for (const Sequence& other : sequences_) {
    if (other.slot < 0 || other.input || other.embeddings || other.adapter != sequence.adapter) continue;
    const uint32_t common = common_tokens(other.tokens());
    const Slot& slot = slots_[static_cast<size_t>(other.slot)];
    const uint32_t written_end = std::max({slot.written_end, other.next, common}); // once it has read them
    const uint32_t tokens = runner_->resume_point(common, written_end, {slot.states.first, 0});
    if (tokens > best.tokens) best = {&other, nullptr, tokens, other.computed >= tokens};
  }
  return best;
}

// Gives a free slot what a sequence has in common with the one that is to begin there. False: they cannot be
// copied.
Result<bool> Batch::copy_prefix(const SharedPrefix& prefix, uint32_t slot) {
  const auto from = static_cast<uint32_t>(prefix.sequence->slot);
  const uint32_t written_end = std::max(slots_[from].written_end, prefix.sequence->next);
  const StateHistory states = {slots_[from].states.first, 0};
  if (runner_->resume_point(prefix.tokens, written_end, states) < prefix.tokens) return false;
  forget(slot);
  PUMICE_TRY(const bool copied,
             copy_caches({*runner_, from}, {*runner_, slot}, prefix.tokens, written_end, false));
  if (!copied) return false;
  slots_[slot].written_end = written_end;
  slots_[slot].states = {prefix.tokens, prefix.tokens};
  return true;
}

// Where a text leaves out a part of what a free slot holds: what is behind the part moves to its place.
Status Batch::close_gap(uint32_t slot, Sequence& sequence) {
  Slot& held = slots_[slot];
  if (sequence.input || sequence.embeddings || held.adapter != sequence.adapter) return {};
  const std::span<const uint32_t> prompt(sequence.tokens().data(), sequence.tokens().size() - 1);
  const uint32_t kept = common_prefix(held.cached, prompt);
  const Gap gap = find_gap(held.cached, prompt, kept);
  if (gap.behind == 0 || std::ranges::any_of(held.cached, is_prompt_row)) return {};
  PUMICE_CHECK(wait());
  forget(slot); // until it is done
  const uint32_t reused = kept + gap.behind;
  PUMICE_CHECK(shift_->run(*runner_, slot, kept, gap.forgotten, reused + gap.forgotten));
  held.cached.assign(prompt.begin(), prompt.begin() + reused);
  sequence.reused = reused;
  return {};
}

// How many leading tokens of a prompt need not be computed, because the slot holds their keys and values, and
// the states after them. The last token of the prompt is always computed, for its logits.
uint32_t Batch::reusable(const Slot& slot, const Sequence& sequence) const {
  if (slot.adapter != sequence.adapter) return 0;
  const std::span<const uint32_t> prompt(sequence.tokens());
  uint32_t common = common_prefix(slot.cached, prompt.first(prompt.size() - 1));
  if (!has_bidirectional_pictures(runner_->model()))
    return runner_->resume_point(common, slot.written_end, slot.states);
  for (;;) {
    const uint32_t first = runner_->resume_point(common, slot.written_end, slot.states);
    const uint32_t begin = picture_at(prompt, first).first;
    // The rows of a picture have seen all of it, so it has to be the same one up to its end.
    const bool same = first == begin || (!is_prompt_row(prompt[first]) &&
                                         (first >= slot.cached.size() || !is_prompt_row(slot.cached[first])));
    if (same) return first;
    common = begin;
  }
}

// How many leading tokens of a conversation have keys and values in a slot. With states: as many as a session
// that gets only one of these states can go on from.
uint32_t Batch::kept(const Slot& slot, std::span<const uint32_t> tokens) const {
  const uint32_t common = common_prefix(slot.cached, tokens);
  return runner_->states().empty() ? common : runner_->resume_point(common, slot.written_end, slot.states);
}

} // namespace pumice
