#include "step/slicer.h"

#include <algorithm>
#include <utility>

#include "model/model.h"
#include "model/upstream.h"

namespace pumice {

Slicer::Slicer(const Model& model) {
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

Error Slicer::name(size_t stage, const Error& error) const {
  if (error.code == Code::cancelled || error.code == Code::not_ready) return error;
  return {error.code, names_[stage] + ": " + error.text()};
}

Result<const TimeSlicer::Slice*> Slice::enter(size_t stage) {
  if (!stage_) {
    stage_ = stage;
    const VkCommandBuffer into = slicer_->is_remote(stage) ? VK_NULL_HANDLE : request_.into;
    PUMICE_TRY(there_, named(stage, slicer_->slicers_[stage]->begin(request_.budget, into)));
  }
  return stage_ == stage && there_ ? &*there_ : nullptr;
}

size_t Slice::last_stage() const {
  return slicer_->last_stage();
}

Result<SliceReport> Slicer::end(const Slice& slice) {
  const size_t stage = slice.stage_.value_or(last_stage());
  const bool remote = is_remote(stage);
  const SubmitSync& sync = slice.request_.sync;
  PUMICE_TRY(const SliceReport made,
             named(stage, slicers_[stage]->end(slice.there_, remote ? SubmitSync() : sync)));
  if (remote) PUMICE_CHECK(slicers_.back()->end({}, sync));
  return slicers_.size() == 1 ? made : report(made);
}

// What is known of the slices of all stages. `last`: of the slice that was made last.
SliceReport Slicer::report(SliceReport last) {
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
Status Slicer::each(const Each& of_slicer) {
  Status first;
  for (size_t stage = 0; stage < slicers_.size(); ++stage) {
    Status status = named(stage, of_slicer(*slicers_[stage]));
    if (first.ok()) first = std::move(status);
  }
  return first;
}

bool Slicer::under_way() const {
  return std::ranges::any_of(slicers_, [](const auto& slicer) { return slicer->under_way(); });
}

Status Slicer::poll() {
  return each([](TimeSlicer& slicer) { return slicer.poll(); });
}

Status Slicer::wait() {
  return each([](TimeSlicer& slicer) { return slicer.wait(); });
}

Status Slicer::wait_before_end() {
  return each([](TimeSlicer& slicer) { return slicer.wait_before_end(); });
}

void Slicer::discard() {
  for (const std::unique_ptr<TimeSlicer>& slicer : slicers_) slicer->discard();
}

Status Slicer::discard_and_wait() {
  return each([](TimeSlicer& slicer) { return slicer.discard_and_wait(); });
}

} // namespace pumice
