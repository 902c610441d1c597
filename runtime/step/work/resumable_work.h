#pragma once

#include <atomic>
#include <memory>

#include <fmt/format.h>

#include "base/guarded.h"
#include "base/progress.h"
#include "model/model.h"
#include "step/work/work.h"

namespace pumice {

// Drives an object that has its memory on the device (a Batch, an Encoder or an EncoderDecoder): makes its
// slices, ends what was cancelled, and makes the object again after an error of the device.
template <class Object>
class ResumableWork : public Work {
public:
  Result<SliceResult> slice(const SliceRequest& request) override {
    PUMICE_CHECK(ready());
    return checked(make_slice(request));
  }
  Status discard() override {
    if (broken_) PUMICE_CHECK(slicer_->discard_and_wait()); // recorded before the error
    PUMICE_CHECK(ready());
    return checked(restart());
  }
  void cancel() override { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }
  // Makes everything again if an error has left it unusable.
  virtual Status ready() { return broken_ ? make() : Status(); }

protected:
  // `doing`: what is cancelled, for messages.
  ResumableWork(std::shared_ptr<const Model> model, const char* doing)
      : model_(std::move(model)), doing_(doing) {}
  ~ResumableWork() override { free(); }

  // Makes the object, and continues what was under way.
  virtual Status make_object(const Progress& progress) = 0;
  // Before a slice: goes over to slices from whole steps.
  virtual Status use_slices() { return {}; }
  // Takes in what is known to have finished.
  virtual Status collect() = 0;
  virtual bool active() const = 0;
  // Puts the next dispatches into a slice, as many as fit.
  virtual Status fill(Slice& slice) = 0;
  virtual double largest_dispatch() const = 0;
  // Ends what is under way. Returns whether something was.
  virtual Result<bool> end() = 0;
  // Discards slices. Only what has finished is not done again.
  virtual Status restart() = 0;

  // Makes everything (again). It counts as broken until that has succeeded.
  Status make(const Progress& progress = {}) {
    broken_ = true;
    PUMICE_CHECK(wait_before_end());
    object_.reset();
    slicer_ = std::make_unique<Slicer>(*model_);
    PUMICE_CHECK(make_object(progress));
    broken_ = false;
    return {};
  }
  // Frees everything on the device once no slice uses it.
  void free() {
    if (slicer_) {
      slicer_->discard();
      (void)guarded([&] { return slicer_->wait(); });
    }
    object_.reset();
    slicer_.reset();
  }
  Status wait_before_end() { return slicer_ ? slicer_->wait_before_end() : Status(); }

  // Returns `result`. After an error of the device, the contents of its memory are unknown: the work is then
  // broken.
  template <class T>
  T checked(T result) {
    if (!result.ok() && !leaves_memory(result.error().code)) broken_ = true;
    return result;
  }
  bool broken() const { return broken_; }

  Status check_cancelled() {
    if (!cancelled_) return {};
    PUMICE_TRY(const bool was_active, end());
    cancelled_ = false;
    return was_active ? Status(Error{Code::cancelled, fmt::format("{} was cancelled", doing_)}) : Status();
  }
  void forget_cancel() { cancelled_ = false; }
  const std::atomic<bool>* interrupt() const { return &cancelled_; } // for Runner::set_interrupt()

  std::shared_ptr<const Model> model_;

private:
  // Whether the device's memory is unchanged after this error.
  static bool leaves_memory(Code code) {
    return code == Code::cancelled || code == Code::not_ready || code == Code::invalid_argument ||
           code == Code::io; // of a file
  }

  Result<SliceResult> make_slice(const SliceRequest& request) {
    PUMICE_CHECK(slicer_->poll());
    PUMICE_CHECK(check_cancelled());
    PUMICE_CHECK(use_slices());
    PUMICE_CHECK(collect());
    SliceResult result;
    result.active = active();
    Slice slice = slicer_->begin(request);
    if (result.active && slicer_->has_room()) PUMICE_CHECK(fill(slice));
    PUMICE_TRY(result.report, slicer_->end(slice));
    if (result.active) result.largest = largest_dispatch();
    return result;
  }

  const char* doing_;
  bool broken_ = false;
  std::atomic<bool> cancelled_ = false;

protected:
  std::unique_ptr<Slicer> slicer_; // only between make() and free(), as the object
  std::unique_ptr<Object> object_;
};

} // namespace pumice
