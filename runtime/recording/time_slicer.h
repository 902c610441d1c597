#pragma once

#include <array>
#include <compare>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/commands.h"
#include "gpu/event.h"
#include "gpu/timestamps.h"
#include "recording/cost_table.h"

namespace pumice {

// A slice by its number, from 1 in their order.
struct SliceNumber {
  uint64_t value = 0;

  auto operator<=>(const SliceNumber&) const = default;
};

// What a slice was, and what is known of those before it. Seconds of the device.
struct SliceReport {
  uint32_t dispatches = 0;
  double expected = 0;
  uint64_t finished = 0; // slices so far
  double measured = 0;   // what the last of those took; 0: the device has no timestamps
  double predicted = 0;  // what that one was expected to take
};

// How far some work is after a slice of it.
struct SliceResult {
  bool active = false; // there is more to do
  SliceReport report;
  double largest = 0; // seconds that the largest dispatch of the current step is expected to take
};

// Work for a device in pieces that are expected to take no longer than they may: each goes into a command
// buffer of its own and is submitted, or into one of the application's. Knows when they have finished, and
// what they took, from which it learns. Used by one thread.
class TimeSlicer {
public:
  static constexpr size_t most_under_way = 4;

  explicit TimeSlicer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~TimeSlicer();

  // A slice of so many seconds with what `fill` adds to it, submitted, or in the application's command buffer
  // if there is one. Without `fill`, or where too many slices are under way, only the semaphores are
  // submitted.
  Result<SliceReport> run(const std::function<Status()>& fill, double budget, const SubmitSync& sync = {},
                          VkCommandBuffer into = VK_NULL_HANDLE);
  // Whether a dispatch goes into the slice that was begun. The first one always does.
  bool fits(const CostTable& costs, size_t dispatch) const;
  Commands& commands() { return slots_[current_].commands(); }
  // Says that it is recorded next.
  void add(const std::shared_ptr<CostTable>& costs, size_t dispatch);

  // Of the slice that was begun last.
  SliceNumber number() const { return number_; }
  // Whether it has finished, as far as look() has seen, or was discarded.
  bool finished(SliceNumber number) const { return number <= finished_; }
  bool under_way() const { return !under_way_.empty(); }
  // Sees which slices have finished, and learns from them.
  Status look();
  // Waits for slices of ours. `not_ready` where the application has recorded slices that have not run.
  Status wait();
  // The same, before what the slices use goes: a lost device has done with all of them.
  Status wait_before_end();
  // Forgets slices in the application's command buffers, which will not run.
  void discard();
  // The same after an error, when some of them may have been submitted: waits for all that was.
  Status discard_and_wait();

  double speed() const { return speed_.median(); }

private:
  struct Entry {
    std::shared_ptr<CostTable> costs;
    size_t dispatch = 0;
    bool timed = false;
    uint32_t before = 0; // the point in time before it, where it or the one before it is timed
  };
  struct Slot {
    Commands& commands() { return borrowed ? theirs : own; }

    Commands own, theirs;
    Timestamps timestamps;
    Event event;
    bool made = false;
    bool borrowed = false; // in the application's command buffer
    bool fine = false;     // every dispatch is timed
    uint32_t points = 0;   // in time
    SliceNumber number;
    TimelinePoint done;  // where it is ours
    double expected = 0; // at a pace of one
    double predicted = 0;
    std::vector<Entry> entries;
  };
  Status make(Slot& slot);
  Result<bool> begin(double budget, VkCommandBuffer into);
  Status end(const SubmitSync& sync);
  void write_point(Slot& slot);
  Result<bool> has_finished(const Slot& slot) const;
  Status submit(Slot& slot, const SubmitSync& sync);
  Status finish_oldest();
  void learn(const Slot& slot, std::span<const double> points);
  double seconds(double dispatches) const { return (start_.mean() + dispatches) * speed_.safe(); }

  std::shared_ptr<Device> device_;
  std::array<Slot, most_under_way> slots_;
  std::deque<size_t> under_way_; // slots, in order
  size_t current_ = 0;
  double budget_ = 0;
  SliceNumber number_;
  SliceNumber finished_; // it and all before it have
  Cost start_ = Cost(0); // what a slice takes before its first dispatch, and is measured with that
  DeviceSpeed speed_;
  SliceReport report_;
};

} // namespace pumice
