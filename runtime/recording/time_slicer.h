#pragma once

#include <array>
#include <compare>
#include <deque>
#include <functional>
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

// The state of some work after a slice of it.
struct SliceResult {
  bool active = false; // there is more to do
  SliceReport report;
  double largest = 0; // expected seconds of the largest dispatch of the current step
};

// Cuts work for a device into slices that are expected to stay within a time budget. Each slice goes into its
// own command buffer and is submitted, or into a command buffer of the application. It sees when slices have
// finished, measures them and learns the costs of dispatches from that. Used by one thread at a time.
class TimeSlicer {
public:
  static constexpr size_t most_under_way = 4;

  explicit TimeSlicer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~TimeSlicer();

  // Makes a slice of at most `budget` seconds: `fill` adds dispatches to it with fits() and add(). The slice
  // is submitted, or recorded into the application's command buffer `into` if there is one. Without `fill`,
  // or with too many slices in flight, only the semaphores of `sync` are submitted.
  Result<SliceReport> run(const std::function<Status()>& fill, double budget, const SubmitSync& sync = {},
                          VkCommandBuffer into = VK_NULL_HANDLE);
  // Whether a dispatch fits the current slice. The first dispatch of a slice always does.
  bool fits(const CostTable& costs, size_t dispatch) const;
  Commands& commands() { return slots_[current_].commands(); }
  // Adds a dispatch to the current slice. The caller records it into commands() next.
  void add(const std::shared_ptr<CostTable>& costs, size_t dispatch);

  // The number of the slice that was begun last.
  SliceNumber number() const { return number_; }
  // Whether a slice was discarded, or has finished as far as look() has seen.
  bool finished(SliceNumber number) const { return number <= finished_; }
  bool under_way() const { return !under_way_.empty(); }
  // Checks which slices have finished, and learns from their times. Does not wait.
  Status look();
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
  // What run() returned last, and what has finished since.
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
  Result<bool> begin(double budget, VkCommandBuffer into);
  Status end(const SubmitSync& sync);
  void write_point(Slot& slot);
  Result<bool> has_finished(const Slot& slot) const;
  Status submit(Slot& slot, const SubmitSync& sync);
  void finish_oldest();

  std::shared_ptr<Device> device_;
  std::array<Slot, most_under_way> slots_;
  std::deque<size_t> under_way_; // slots, in order
  size_t current_ = 0;
  double budget_ = 0;
  SliceNumber number_;
  SliceNumber finished_; // this slice and all before it have finished
  SlicePredictor predictor_;
  SliceReport report_;
};

} // namespace pumice
