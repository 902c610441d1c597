#pragma once

#include <atomic>
#include <memory>

#include "base/guarded.h"
#include "recording/time_slicer.h"

namespace pumice {

// What sessions and encoders have in common: their work goes to the device all at once or in slices of time,
// another thread can cancel it, and after an error of the device what it is done with is made anew. Used by
// one thread at a time, but for cancel().
class ResumableWork {
public:
  // Makes what the work is done with, `part`, anew where it was there: `create` does so once no slice uses
  // the old one. Until that has succeeded the work is broken.
  template <class Part, class Create>
  Status make(const std::shared_ptr<Device>& device, std::unique_ptr<Part>& part, const Create& create) {
    broken_ = true;
    PUMICE_CHECK(wait_before_end());
    part.reset();
    slicer_ = std::make_unique<TimeSlicer>(device);
    PUMICE_CHECK(create());
    broken_ = false;
    return {};
  }
  // Lets go of it, and of all that is on the device, once no slice uses it.
  template <class Part>
  void end(std::unique_ptr<Part>& part) {
    if (slicer_) {
      slicer_->discard();
      (void)guarded([&] { return slicer_->wait(); });
    }
    part.reset();
    slicer_.reset();
  }
  Status wait_before_end() { return slicer_ ? slicer_->wait_before_end() : Status(); }

  // Passes on what a call came to. After an error of the device nobody knows what is in its memory: the work
  // is broken.
  template <class T>
  T checked(T result) {
    if (!result.ok() && !leaves_memory(result.error().code)) broken_ = true;
    return result;
  }
  bool broken() const { return broken_; }
  // Slices that were recorded before the error are not submitted any more, or have been.
  Status discard_if_broken() { return broken_ ? slicer_->discard_and_wait() : Status(); }

  // From any thread: what is being run is to end.
  void cancel() { cancelled_ = true; }
  void forget_cancel() { cancelled_ = false; }
  bool cancelled() const { return cancelled_; }
  const std::atomic<bool>* interrupt() const { return &cancelled_; } // for Runner::set_interrupt()

  // While there is a part.
  TimeSlicer& slices() { return *slicer_; }

private:
  // Of an error: whether the device's memory is as the calls before have left it.
  static bool leaves_memory(Code code) {
    return code == Code::cancelled || code == Code::not_ready || code == Code::invalid_argument;
  }

  std::unique_ptr<TimeSlicer> slicer_;
  bool broken_ = false;
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice
