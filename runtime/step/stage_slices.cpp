#include "step/stage_slices.h"

#include <algorithm>
#include <utility>

#include "model/model.h"
#include "model/upstream.h"

namespace pumice {

StageSlices::StageSlices(const Model& model) {
  if (model.upstream()) {
    devices_ = model.upstream()->devices();
    names_ = model.upstream()->describe();
    names_.resize(devices_.size());
  }
  devices_.push_back(model.context().device);
  for (const std::shared_ptr<Device>& device : devices_) {
    slicers_.push_back(std::make_unique<TimeSlicer>(device));
  }
  finished_.resize(slicers_.size());
}

Error StageSlices::name(size_t stage, const Error& error) const {
  if (error.code == Code::cancelled || error.code == Code::not_ready) return error;
  return {error.code, names_[stage] + ": " + error.text()};
}

Result<SliceReport> StageSlices::run(const std::function<Status()>& fill, double budget,
                                     const SubmitSync& sync, VkCommandBuffer into) {
  TimeSlicer& last = *slicers_.back();
  if (slicers_.size() == 1) return run_at(0, fill, budget, sync, into);
  wanted_.reset();
  if (fill) PUMICE_CHECK(fill());
  if (!wanted_) { // there is nothing to do, or the step's last slice of a stage is still under way
    PUMICE_TRY(const SliceReport nothing, last.run({}, budget, sync));
    return report(nothing);
  }
  const size_t stage = *wanted_;
  if (devices_[stage] == devices_.back()) {
    PUMICE_TRY(const SliceReport slice, run_at(stage, fill, budget, sync, into));
    return report(slice);
  }
  PUMICE_TRY(const SliceReport slice, run_at(stage, fill, budget, {}, VK_NULL_HANDLE));
  PUMICE_CHECK(last.run({}, budget, sync));
  return report(slice);
}

Result<SliceReport> StageSlices::run_at(size_t stage, const std::function<Status()>& fill, double budget,
                                        const SubmitSync& sync, VkCommandBuffer into) {
  Status filled;
  const auto fill_here = [&] {
    filled = fill();
    return filled;
  };
  here_ = stage;
  Result<SliceReport> slice =
      slicers_[stage]->run(fill ? fill_here : std::function<Status()>(), budget, sync, into);
  here_.reset();
  if (!filled.ok()) return filled.error(); // has a name, if it needs one
  return named(stage, std::move(slice));
}

TimeSlicer* StageSlices::enter(size_t stage) {
  if (here_ == stage) return slicers_[stage].get();
  if (!wanted_) wanted_ = stage;
  return nullptr;
}

// What is known of the slices of all stages. `last`: of the slice that was made last.
SliceReport StageSlices::report(SliceReport last) {
  last.finished = 0;
  for (size_t stage = 0; stage < slicers_.size(); ++stage) {
    const uint64_t finished = slicers_[stage]->report().finished;
    last.finished += finished;
    if (finished > std::exchange(finished_[stage], finished)) finished_last_ = stage;
  }
  const SliceReport& finished = slicers_[finished_last_]->report();
  last.measured = finished.measured;
  last.predicted = finished.predicted;
  return last;
}

// Calls it with each stage's slicer, also after an error, and returns the first error.
template <class Each>
Status StageSlices::each(const Each& of_slicer) {
  Status first;
  for (size_t stage = 0; stage < slicers_.size(); ++stage) {
    Status status = named(stage, of_slicer(*slicers_[stage]));
    if (first.ok()) first = std::move(status);
  }
  return first;
}

bool StageSlices::under_way() const {
  return std::ranges::any_of(slicers_, [](const auto& slicer) { return slicer->under_way(); });
}

Status StageSlices::look() {
  return each([](TimeSlicer& slicer) { return slicer.look(); });
}

Status StageSlices::wait() {
  return each([](TimeSlicer& slicer) { return slicer.wait(); });
}

Status StageSlices::wait_before_end() {
  return each([](TimeSlicer& slicer) { return slicer.wait_before_end(); });
}

void StageSlices::discard() {
  for (const std::unique_ptr<TimeSlicer>& slicer : slicers_) slicer->discard();
}

Status StageSlices::discard_and_wait() {
  return each([](TimeSlicer& slicer) { return slicer.discard_and_wait(); });
}

} // namespace pumice
