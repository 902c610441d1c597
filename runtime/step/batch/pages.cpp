#include <algorithm>

#include "step/batch.h"
#include "step/cache/snapshot.h"
#include "step/prompt_embeddings.h"

namespace pumice {

namespace {

// The fewest tokens of a text that are worth being kept without a slot.
constexpr size_t least_kept = 32;

} // namespace

// How many pages a sequence that begins could get, if all texts that have ended went, and `held` stayed.
uint32_t Batch::obtainable_pages(std::span<const uint32_t> held) const {
  std::vector<bool> stays(pool_.pages());
  for (const uint32_t page : held) stays[page] = true;
  for (const Slot& slot : slots_) {
    for (const uint32_t page : slot.pages) stays[page] = stays[page] || slot.busy;
  }
  return static_cast<uint32_t>(std::ranges::count(stays, false));
}

// Gives up the pages of the text that was not used for longest, of those that have ended: but not of `slot`.
// There must be one.
void Batch::evict_text(uint32_t slot) {
  Slot* oldest = nullptr;
  for (Slot& each : slots_) {
    if (each.busy || each.pages.empty() || &each == &slots_[slot]) continue;
    const auto age = [](const Slot& of) { return of.cached.empty() ? 0 : of.released; };
    if (!oldest || age(each) < age(*oldest)) oldest = &each;
  }
  const auto kept = std::ranges::min_element(kept_texts_, {}, &KeptText::used);
  const bool has_kept = kept != kept_texts_.end();
  if (oldest && (oldest->cached.empty() || !has_kept || oldest->released < kept->used)) {
    pool_.drop(oldest->pages);
    oldest->pages.clear();
    oldest->cached.clear();
  } else if (has_kept) {
    pool_.drop(kept->pages);
    kept_texts_.erase(kept);
  }
}

// Gives a slot the pages of a sequence that is to begin there: those of the first `reused` positions, which
// the prefix has or, without one, the slot, and others for all that the text may become. What else the slot
// holds is kept as a text without one. False, and nothing is done: there are too few until another text ends.
Result<bool> Batch::take_pages(Sequence& sequence, uint32_t slot, const SharedPrefix* prefix) {
  Slot& own = slots_[slot];
  for (Slot& each : slots_) { // what steps that ran ahead have written
    const size_t used = pages_for(static_cast<uint32_t>(each.cached.size()));
    if (each.busy || &each == &own || each.pages.size() <= used) continue;
    pool_.drop(std::span(each.pages).subspan(used));
    each.pages.resize(used);
  }
  std::vector<uint32_t> pages = !prefix            ? own.pages
                                : prefix->sequence ? slots_[static_cast<size_t>(prefix->sequence->slot)].pages
                                                   : prefix->kept->pages;
  uint32_t first = sequence.reused;
  const size_t others = own.cached.size() - std::min<size_t>(own.cached.size(), prefix ? 0 : first);
  bool keeps = only_pages_ && others >= least_kept && std::ranges::none_of(own.cached, is_prompt_row);
  // The page that the text goes on in must be its own: it gets a copy of one that others have.
  bool copies = false;
  const auto begin_at = [&](uint32_t position) {
    first = position;
    pages.resize(pages_for(first));
    copies = first % cache_page_positions > 0 && (prefix || keeps || pool_.shared(pages.back()));
  };
  const auto begin_at_page = [&] {
    const uint32_t position = first / cache_page_positions * cache_page_positions;
    begin_at(runner_->resume_point(position, own.written_end, own.states));
  };
  begin_at(first);
  if (copies && !may_wait_) {
    keeps = false;
    begin_at(first);
    if (copies) begin_at_page();
  }
  const size_t needed = pages_for(sequence.limit);
  const auto suffice = [&] { return obtainable_pages(pages) + pages.size() - copies >= needed; };
  if (!suffice() && copies) begin_at_page();
  if (!suffice()) return false;

  pool_.hold(pages); // while others go
  if (keeps) {
    const size_t used = pages_for(static_cast<uint32_t>(own.cached.size()));
    pool_.drop(std::span(own.pages).subspan(used));
    own.pages.resize(used);
    keeps = std::ranges::any_of(own.pages, [&](uint32_t page) { return !pool_.shared(page); });
  }
  if (keeps) {
    kept_texts_.push_back({std::move(own.cached), std::move(own.pages), own.adapter, own.released});
  } else {
    pool_.drop(own.pages);
  }
  own.cached.clear();
  own.pages.clear();
  if (prefix && prefix->kept) prefix->kept->used = ++releases_;
  std::optional<uint32_t> copied;
  if (copies) {
    copied = pages.back();
    pages.pop_back();
  }
  while (pages.size() < needed) {
    while (pool_.free() == 0) evict_text(slot);
    pages.push_back(pool_.take());
  }
  own.pages = std::move(pages);
  sequence.reused = first;
  own.written_end = std::max(own.written_end, first);
  PUMICE_CHECK(runner_->set_pages(slot, own.pages));
  if (!copied) return true;
  const Status done = copy_page(*runner_, *copied, own.pages[first / cache_page_positions]);
  pool_.drop(std::span(&*copied, 1));
  PUMICE_CHECK(done);
  return true;
}

// Gives a free slot pages for what is to be put there. False: there are too few, or a step has been begun
// that may still write where a text has ended.
Result<bool> Batch::renew_pages(uint32_t slot, uint32_t positions) {
  if (pool_.pages() == 0) return true;
  Slot& own = slots_[slot];
  const bool begun = runner_->step_open() ||
                     std::ranges::any_of(in_flight_, [](const InFlightStep& each) { return !each.done; });
  if (begun || obtainable_pages({}) < pages_for(positions)) return false;
  pool_.drop(own.pages);
  own.pages.clear();
  while (own.pages.size() < pages_for(positions)) {
    while (pool_.free() == 0) evict_text(slot);
    own.pages.push_back(pool_.take());
  }
  PUMICE_CHECK(runner_->set_pages(slot, own.pages));
  return true;
}

} // namespace pumice
