#pragma once

#include <array>
#include <compare>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/commands.h"
#include "gpu/event.h"
#include "gpu/timestamps.h"
#include "recording/slice_predictor.h"

namespace pumice {

// The number of a slice, counted from 1.
struct SliceNumber {
  uint64_t value = 0;

  auto operator<=>(const SliceNumber&) const = default;
};

// What is in a slice, and what is known of the slices before it. Times are seconds on the device.
struct SliceReport {
  uint32_t dispatches = 0;
  double expected = 0;   // about as many slices take longer as take less
  uint64_t finished = 0; // slices that have finished so far
  double measured = 0;   // time of the last finished slice; 0: the device has no timestamps
  double predicted = 0;  // expected time of that slice
};

// Cuts work for a device into slices that are expected to stay within a time budget. Each slice goes into its
// own command buffer and is submitted, or into a command buffer of the application. It sees when slices have
// finished, measures them and learns the costs of dispatches from that. Used by one thread at a time.
class TimeSlicer {
  struct Slot;

public:
  static constexpr size_t most_under_way = 4;

  // A slice that is being made. Forgotten without end(), it was never begun.
  class Slice {
  public:
    SliceNumber number() const { return slot_->number; }
    TimeSlicer& slicer() const { return *slicer_; }
    // Whether a dispatch fits. The first one always does.
    bool fits(const CostTable& costs, size_t dispatch) const;
    Commands& commands() const { return slot_->commands(); }
    // Adds a dispatch. The caller records it into commands() next.
    void add(const std::shared_ptr<CostTable>& costs, size_t dispatch) const;

  private:
    friend class TimeSlicer;
    Slice(TimeSlicer& slicer, Slot& slot, double budget) : slicer_(&slicer), slot_(&slot), budget_(budget) {}

    TimeSlicer* slicer_;
    Slot* slot_;
    double budget_; // seconds
  };

  explicit TimeSlicer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~TimeSlicer();

  // Begins a slice of at most `budget` seconds, which goes into the application's command buffer `into` if
  // there is one. Nothing: too many slices are in flight.
  Result<std::optional<Slice>> begin(double budget, VkCommandBuffer into = VK_NULL_HANDLE);
  // Submits it, unless it is recorded. Without a slice, only the semaphores of `sync` are submitted.
  Result<SliceReport> end(const std::optional<Slice>& slice, const SubmitSync& sync = {});
  bool has_room() const { return under_way_.size() < most_under_way; }

  // Whether a slice was discarded, or has finished as far as poll() has seen.
  bool finished(SliceNumber number) const { return number <= finished_; }
  bool under_way() const { return !under_way_.empty(); }
  bool recorded_under_way() const; // in command buffers of the application
  // Checks which slices have finished, and learns from their times. Does not wait.
  Status poll();
  // Waits for all slices in flight. `not_ready` if one of them is in a command buffer of the application that
  // has not run yet.
  Status wait() { return wait(number_); }
  // The same for this slice and those before it.
  Status wait(SliceNumber last);
  // As wait(), before the buffers that the slices use are freed. A lost device is no error here: nothing runs
  // on it any more.
  Status wait_before_end();
  // Forgets slices in command buffers that the application will not submit.
  void discard();
  // The last slice of which discard() leaves all slices up to it to run, and none after it; nothing if slices
  // after discarded ones run too, for what they make is then not known.
  std::optional<SliceNumber> last_kept() const;
  // The same after an error, when some of them may have been submitted: waits for everything on the queue.
  Status discard_and_wait();

  const SlicePredictor& predictor() const { return predictor_; }
  // What end() returned last, and what has finished since.
  const SliceReport& report() const { return report_; }
  // Bytes of device memory that the slicer allocates with its first slices.
  static Result<uint64_t> memory_needed(const Device& device);

private:
  struct Slot {
    Commands& commands() { return borrowed ? external : own; }

    Commands own;      // of the slicer
    Commands external; // the application's
    Timestamps timestamps;
    Event event;
    bool made = false;
    bool borrowed = false; // in the application's command buffer
    uint32_t points = 0;   // timestamps written
    SliceNumber number;
    TimelinePoint done;   // unless borrowed
    double costs = 0;     // of its dispatches, together
    double predicted = 0; // seconds
    std::vector<SliceEntry> entries;
  };
  Status make(Slot& slot);
  void write_point(Slot& slot);
  Result<bool> has_finished(const Slot& slot) const;
  void finish_oldest();

  std::shared_ptr<Device> device_;
  std::array<Slot, most_under_way> slots_;
  std::deque<size_t> under_way_; // slots, in order
  size_t last_ = 0;              // slot that was begun last
  SliceNumber number_;           // of the last slice
  SliceNumber finished_;         // this slice and all before it have finished
  SlicePredictor predictor_;
  SliceReport report_;
};

} // namespace pumice
