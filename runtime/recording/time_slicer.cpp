#include "recording/time_slicer.h"

#include <algorithm>

#include "base/guarded.h"

namespace pumice {

namespace {

// The most timestamps of a slice, the last one aside. They take time that was not expected, so only a few
// dispatches of a slice are timed.
constexpr uint32_t most_points = 8;

} // namespace

Result<uint64_t> TimeSlicer::memory_needed(const Device& device) {
  PUMICE_TRY(const uint64_t slot, Timestamps::memory_needed(device, most_points + 1));
  return most_under_way * slot;
}

TimeSlicer::~TimeSlicer() {
  // Slices in the application's command buffers have finished or will not run.
  discard();
  (void)guarded([&] { return wait(); });
}

Status TimeSlicer::make(Slot& slot) {
  if (slot.made) return {};
  PUMICE_TRY(slot.own, Commands::create(device_, "slice"));
  PUMICE_TRY(slot.event, Event::create(device_));
  if (device_->capabilities().timestamps) {
    PUMICE_TRY(slot.timestamps, Timestamps::create(device_, most_points + 1));
  }
  slot.made = true;
  return {};
}

Result<std::optional<TimeSlicer::Slice>> TimeSlicer::begin(double budget, VkCommandBuffer into) {
  PUMICE_CHECK(poll());
  if (!has_room()) return std::optional<Slice>();
  last_ = ((under_way_.empty() ? last_ : under_way_.back()) + 1) % most_under_way;
  Slot& slot = slots_[last_];
  PUMICE_CHECK(make(slot));
  slot.borrowed = into != VK_NULL_HANDLE;
  if (slot.borrowed) {
    PUMICE_CHECK(slot.event.reset());
    slot.external = Commands::into(device_, into);
  } else {
    PUMICE_CHECK(slot.own.reset());
    PUMICE_CHECK(slot.own.begin());
  }
  slot.entries.clear();
  slot.costs = 0;
  slot.points = 0;
  slot.number.value = number_.value + 1;
  return std::optional(Slice(*this, slot, budget));
}

bool TimeSlicer::Slice::fits(const CostTable& costs, size_t dispatch) const {
  const double together = slot_->costs + costs[dispatch].seconds();
  return slot_->entries.empty() || slicer_->predictor_.safe(together) <= budget_;
}

void TimeSlicer::write_point(Slot& slot) {
  if (device_->capabilities().timestamps) slot.timestamps.write(slot.commands(), slot.points++);
}

void TimeSlicer::Slice::add(const std::shared_ptr<CostTable>& costs, size_t dispatch) const {
  Slot& slot = *slot_;
  const bool timestamps = slicer_->device_->capabilities().timestamps;
  SliceEntry entry{costs, dispatch, false, 0};
  const bool first = slot.entries.empty();
  if (first) {
    if (timestamps) slot.timestamps.reset(slot.commands());
    slicer_->write_point(slot);
    slot.commands().barrier(); // against what was submitted before
  }
  // With its own timestamp, and one after it.
  entry.timed = !(*costs)[dispatch].known() && slot.points + 2 <= most_points;
  if (!first && (entry.timed || slot.entries.back().timed)) slicer_->write_point(slot);
  entry.before = slot.points - 1;
  slot.costs += (*costs)[dispatch].seconds();
  slot.entries.push_back(std::move(entry));
}

Result<SliceReport> TimeSlicer::end(const std::optional<Slice>& slice, const SubmitSync& sync) {
  report_.dispatches = 0;
  report_.expected = 0;
  if (!slice || slice->slot_->entries.empty()) {
    if (!sync.empty()) PUMICE_CHECK(device_->submit({}, sync));
    return report_;
  }
  Slot& slot = *slice->slot_;
  write_point(slot);
  if (slot.points > 0) slot.timestamps.finish(slot.commands(), slot.points);
  slot.commands().host_barrier(); // after the points: it takes time itself on CPU drivers
  if (slot.borrowed) slot.commands().set_event(slot.event.handle());
  slot.predicted = predictor_.expected(slot.costs);
  if (!slot.borrowed) {
    PUMICE_CHECK(slot.own.end());
    PUMICE_TRY(slot.done, device_->submit(slot.own.buffers(), sync));
  }
  under_way_.push_back(last_);
  number_ = slot.number;
  report_.dispatches = static_cast<uint32_t>(slot.entries.size());
  report_.expected = slot.predicted;
  return report_;
}

Result<bool> TimeSlicer::has_finished(const Slot& slot) const {
  if (slot.borrowed) return slot.event.is_set();
  PUMICE_TRY(const TimelinePoint reached, device_->completed());
  return reached >= slot.done;
}

Status TimeSlicer::poll() {
  while (!under_way_.empty()) {
    Slot& slot = slots_[under_way_.front()];
    PUMICE_TRY(const bool done, has_finished(slot));
    if (!done) return {};
    finish_oldest();
  }
  return {};
}

Status TimeSlicer::wait(SliceNumber last) {
  Status first; // the first error; the other slices are waited for all the same
  while (!under_way_.empty() && slots_[under_way_.front()].number <= last) {
    Slot& slot = slots_[under_way_.front()];
    if (slot.borrowed) {
      PUMICE_TRY(const bool done, has_finished(slot));
      if (!done) {
        return Error{Code::not_ready, "a slice that was recorded into a command buffer of the application "
                                      "has not run yet: submit it, or discard it"};
      }
    } else {
      PUMICE_CHECK(device_->wait(slot.done));
    }
    Status finished = guarded([&] { finish_oldest(); });
    if (first.ok()) first = std::move(finished);
  }
  return first;
}

Status TimeSlicer::wait_before_end() {
  Status status = wait();
  return !status.ok() && status.error().code == Code::device_lost ? Status() : status;
}

bool TimeSlicer::recorded_under_way() const {
  return std::ranges::any_of(under_way_, [this](size_t slot) { return slots_[slot].borrowed; });
}

void TimeSlicer::discard() {
  std::erase_if(under_way_, [this](size_t slot) { return slots_[slot].borrowed; });
  // The last slice that stays takes over the number of the discarded ones, so that they count as finished
  // when it has.
  (under_way_.empty() ? finished_ : slots_[under_way_.back()].number) = number_;
}

std::optional<SliceNumber> TimeSlicer::last_kept() const {
  SliceNumber last = finished_;
  bool discarded = false;
  for (size_t slot : under_way_) {
    if (discarded && !slots_[slot].borrowed) return {};
    discarded = slots_[slot].borrowed;
    if (!discarded) last = slots_[slot].number;
  }
  return last;
}

Status TimeSlicer::discard_and_wait() {
  discard();
  PUMICE_TRY(const TimelinePoint all, device_->submit({}));
  return device_->wait(all);
}

void TimeSlicer::finish_oldest() {
  const Slot& slot = slots_[under_way_.front()];
  under_way_.pop_front();
  finished_ = slot.number;
  ++report_.finished;
  report_.predicted = slot.predicted;
  report_.measured = 0;
  if (slot.points == 0) return;
  const std::vector<double> points = slot.timestamps.read(slot.points);
  report_.measured = points.back();
  predictor_.learn(slot.entries, points);
}

} // namespace pumice
