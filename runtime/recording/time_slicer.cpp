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

Result<SliceReport> TimeSlicer::run(const std::function<Status()>& fill, double budget,
                                    const SubmitSync& sync, VkCommandBuffer into) {
  report_.dispatches = 0;
  report_.expected = 0;
  PUMICE_TRY(const bool begun, fill ? begin(budget, into) : Result<bool>(false));
  if (!begun) {
    if (!sync.empty()) PUMICE_CHECK(device_->submit({}, sync));
    return report_;
  }
  Status status = fill();
  if (status.ok()) status = end(sync);
  if (!status.ok()) {
    --number_.value;
    return status.error();
  }
  return report_;
}

// Returns false if too many slices are in flight.
Result<bool> TimeSlicer::begin(double budget, VkCommandBuffer into) {
  PUMICE_CHECK(look());
  if (under_way_.size() == most_under_way) return false;
  current_ = (under_way_.empty() ? current_ : under_way_.back()) + 1;
  current_ %= most_under_way;
  Slot& slot = slots_[current_];
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
  budget_ = budget;
  ++number_.value;
  slot.number = number_;
  return true;
}

bool TimeSlicer::fits(const CostTable& costs, size_t dispatch) const {
  const Slot& slot = slots_[current_];
  return slot.entries.empty() || predictor_.safe(slot.costs + costs[dispatch].seconds()) <= budget_;
}

void TimeSlicer::write_point(Slot& slot) {
  if (device_->capabilities().timestamps) slot.timestamps.write(slot.commands(), slot.points++);
}

void TimeSlicer::add(const std::shared_ptr<CostTable>& costs, size_t dispatch) {
  Slot& slot = slots_[current_];
  SliceEntry entry{costs, dispatch, false, 0};
  const bool first = slot.entries.empty();
  if (first) {
    if (device_->capabilities().timestamps) slot.timestamps.reset(slot.commands());
    write_point(slot);
    slot.commands().barrier(); // against what was submitted before
  }
  // With its own timestamp, and one after it.
  entry.timed = !(*costs)[dispatch].known() && slot.points + 2 <= most_points;
  if (!first && (entry.timed || slot.entries.back().timed)) write_point(slot);
  entry.before = slot.points - 1;
  slot.costs += (*costs)[dispatch].seconds();
  slot.entries.push_back(std::move(entry));
}

Status TimeSlicer::end(const SubmitSync& sync) {
  Slot& slot = slots_[current_];
  const bool empty = slot.entries.empty();
  if (!empty) {
    write_point(slot);
    if (slot.points > 0) slot.timestamps.finish(slot.commands(), slot.points);
    slot.commands().host_barrier(); // after the points: it takes time itself on CPU drivers
    if (slot.borrowed) slot.commands().set_event(slot.event.handle());
  }
  slot.predicted = empty ? 0 : predictor_.expected(slot.costs);
  report_.dispatches = static_cast<uint32_t>(slot.entries.size());
  report_.expected = slot.predicted;
  if (!slot.borrowed) {
    PUMICE_CHECK(slot.own.end());
    PUMICE_CHECK(submit(slot, sync));
  }
  if (empty) {
    --number_.value;
  } else {
    under_way_.push_back(current_);
  }
  return {};
}

Status TimeSlicer::submit(Slot& slot, const SubmitSync& sync) {
  if (slot.entries.empty() && sync.empty()) return {};
  const std::span<const VkCommandBuffer> commands = slot.own.buffers();
  PUMICE_TRY(slot.done, device_->submit(slot.entries.empty() ? commands.first(0) : commands, sync));
  return {};
}

Result<bool> TimeSlicer::has_finished(const Slot& slot) const {
  if (slot.borrowed) return slot.event.is_set();
  PUMICE_TRY(const TimelinePoint reached, device_->completed());
  return reached >= slot.done;
}

Status TimeSlicer::look() {
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
