#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recording/time_slicer.h"

namespace pumice {

class Model;
class Slicer;

// How long a slice may take, and where it goes.
struct SliceRequest {
  double budget = 0;                     // expected seconds on the device
  SubmitSync sync = {};                  // of the submission
  VkCommandBuffer into = VK_NULL_HANDLE; // the application's, in place of a submission
};

// The state of some work after a slice of it.
struct SliceResult {
  bool active = false; // there is more to do
  SliceReport report;
  double largest = 0; // expected seconds of the largest dispatch of the current step
};

// A slice of a model's steps that is being made. It is on the device of the first stage that enters it; on
// another one than the model's, which the last stage is on, the semaphores do not wait for it, and nothing is
// recorded into the application's command buffer.
class Slice {
public:
  // The slice as a stage fills it. Null: it is on another one, or too many slices are in flight there.
  Result<const TimeSlicer::Slice*> enter(size_t stage);
  size_t last_stage() const;
  // Returns a result of a stage; an error with the stage's name, unless it is the last one.
  template <class T>
  T named(size_t stage, T result) const;

private:
  friend class Slicer;
  Slice(Slicer& slicer, const SliceRequest& request) : slicer_(&slicer), request_(request) {}

  Slicer* slicer_;
  SliceRequest request_;
  std::optional<size_t> stage_; // that it is on
  std::optional<TimeSlicer::Slice> there_;
};

// Slices of the steps of a model: a TimeSlicer for each of its stages, on its device. A model in one piece
// has one stage. Used by one thread at a time.
class Slicer {
public:
  explicit Slicer(const Model& model);

  // A slice is begun, filled and ended. Forgotten without end(), it was never begun.
  Slice begin(const SliceRequest& request) { return Slice(*this, request); }
  Result<SliceReport> end(const Slice& slice);
  // Whether the last stage has room for another slice in flight.
  bool has_room() const { return slicers_.back()->has_room(); }
  // Whether a slice in flight is in a command buffer of the application.
  bool recorded_under_way() const { return slicers_.back()->recorded_under_way(); }

  // These are for all stages, as in TimeSlicer.
  bool under_way() const;
  Status poll();
  Status wait();
  Status wait_before_end();
  void discard();
  Status discard_and_wait();
  // Of the last stage, which tells when a step is done.
  std::optional<SliceNumber> last_kept() const { return slicers_.back()->last_kept(); }

  size_t last_stage() const { return slicers_.size() - 1; }
  const TimeSlicer& at(size_t stage) const { return *slicers_[stage]; }

private:
  friend class Slice;
  bool is_remote(size_t stage) const { return devices_[stage] != devices_.back(); }
  Error name(size_t stage, const Error& error) const;
  template <class T>
  T named(size_t stage, T result) const {
    return result.ok() || stage >= names_.size() ? std::move(result) : T(name(stage, result.error()));
  }
  SliceReport report(SliceReport last);
  template <class Each>
  Status each(const Each& of_slicer);

  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<TimeSlicer>> slicers_;
  std::vector<std::string> names_; // of the stages before the last one
  std::vector<uint64_t> finished_; // slices of each stage that report() has counted
  size_t finished_last_ = 0;       // the stage of the last one of them
};

template <class T>
T Slice::named(size_t stage, T result) const {
  return slicer_->named(stage, std::move(result));
}

} // namespace pumice
