#pragma once

#include <atomic>
#include <memory>

#include <fmt/format.h>

#include "base/guarded.h"
#include "model/model.h"
#include "model/upstream.h"
#include "step/stage_slices.h"

namespace pumice {

// Whether its steps can be divided into time slices. Through stages in other processes they go only whole.
inline bool has_slices(const Model& model) {
  return !model.upstream() || !model.upstream()->devices().empty();
}
// An error if not. `instead`: what to do.
inline Status check_slices(const Model& model, const char* instead) {
  if (has_slices(model)) return {};
  return Error{Code::unsupported,
               fmt::format("{}: the model is in stages, whose steps cannot be divided into time slices: {}",
                           model.file().path(), instead)};
}

// What Session and ResumableEncoder have in common: their work runs in whole steps or in slices of time,
// another thread can cancel it, and after an error of the device their object on the device (a Batch or an
// Encoder) is made again. Used by one thread at a time, except cancel().
class ResumableWork {
public:
  // Makes `object` (again): waits until no slice uses the old one, frees it, and calls `create`, which sets
  // it. The work counts as broken until that has succeeded.
  template <class Object, class Create>
  Status make(const Model& model, std::unique_ptr<Object>& object, const Create& create) {
    broken_ = true;
    PUMICE_CHECK(wait_before_end());
    object.reset();
    slices_ = std::make_unique<StageSlices>(model);
    PUMICE_CHECK(create());
    broken_ = false;
    return {};
  }
  // Frees `object` and the slices once no slice uses them.
  template <class Object>
  void end(std::unique_ptr<Object>& object) {
    if (slices_) {
      slices_->discard();
      (void)guarded([&] { return slices_->wait(); });
    }
    object.reset();
    slices_.reset();
  }
  Status wait_before_end() { return slices_ ? slices_->wait_before_end() : Status(); }

  // Returns `result`. After an error of the device, the contents of its memory are unknown: the work is then
  // broken.
  template <class T>
  T checked(T result) {
    if (!result.ok() && !leaves_memory(result.error().code)) broken_ = true;
    return result;
  }
  bool broken() const { return broken_; }
  // If broken: forgets slices that were recorded before the error, and waits for everything that was
  // submitted.
  Status discard_if_broken() { return broken_ ? slices_->discard_and_wait() : Status(); }

  // From any thread: asks the running work to end.
  void cancel() { cancelled_ = true; }
  void forget_cancel() { cancelled_ = false; }
  bool cancelled() const { return cancelled_; }
  const std::atomic<bool>* interrupt() const { return &cancelled_; } // for Runner::set_interrupt()

  // Only between make() and end().
  StageSlices& slices() { return *slices_; }

private:
  // Whether the device's memory is unchanged after this error.
  static bool leaves_memory(Code code) {
    return code == Code::cancelled || code == Code::not_ready || code == Code::invalid_argument ||
           code == Code::io; // of a file
  }

  std::unique_ptr<StageSlices> slices_;
  bool broken_ = false;
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice
