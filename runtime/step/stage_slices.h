#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recording/time_slicer.h"

namespace pumice {

class Model;

// The slices of a model's stages: a TimeSlicer for each, on its device. A slice is on one device, that of the
// stage where the step is. A model in one piece has one stage. Used by one thread at a time.
class StageSlices {
public:
  explicit StageSlices(const Model& model);

  // As TimeSlicer::run(). `fill` is called until it has entered a stage, and then within a slice there. A
  // slice on another device than the model's, which the last stage is on, is submitted to that device: the
  // semaphores do not wait for it, and nothing is recorded into `into`.
  Result<SliceReport> run(const std::function<Status()>& fill, double budget, const SubmitSync& sync = {},
                          VkCommandBuffer into = VK_NULL_HANDLE);
  // From within `fill`, which returns if there is none: the slice of a stage.
  TimeSlicer* enter(size_t stage);
  size_t last_stage() const { return slicers_.size() - 1; }

  // These are for all stages, as in TimeSlicer.
  bool under_way() const;
  Status look();
  Status wait();
  Status wait_before_end();
  void discard();
  Status discard_and_wait();
  // Of the last stage, which tells when a step is done.
  std::optional<SliceNumber> last_kept() const { return slicers_.back()->last_kept(); }

  const TimeSlicer& slicer(size_t stage) const { return *slicers_[stage]; }
  // Returns a result of a stage; an error with the stage's name, unless it is the last one.
  template <class T>
  T named(size_t stage, T result) const {
    return result.ok() || stage >= names_.size() ? std::move(result) : T(name(stage, result.error()));
  }

private:
  Error name(size_t stage, const Error& error) const;
  Result<SliceReport> run_at(size_t stage, const std::function<Status()>& fill, double budget,
                             const SubmitSync& sync, VkCommandBuffer into);
  SliceReport report(SliceReport last);
  template <class Each>
  Status each(const Each& of_slicer);

  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<TimeSlicer>> slicers_;
  std::vector<std::string> names_; // of the stages before the last one
  std::optional<size_t> here_;     // the stage that the current slice is on
  std::optional<size_t> wanted_;   // the first one that was entered without a slice
  std::vector<uint64_t> finished_; // slices of each stage that report() has counted
  size_t finished_last_ = 0;       // the stage of the last one of them
};

} // namespace pumice
