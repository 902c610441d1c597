#pragma once

#include "step/slicer.h"

namespace pumice {

// What an application can run a slice at a time, whatever it computes. Used by one thread at a time, except
// cancel().
class Work {
public:
  virtual ~Work() = default;
  // Submits or records a slice. Does not wait for the device.
  virtual Result<SliceResult> slice(const SliceRequest& request) = 0;
  // Forgets slices in command buffers that will not be submitted, and waits for those that were submitted.
  // What was not finished starts again.
  virtual Status discard() = 0;
  // From any thread: ends what is under way. The call that runs it, or the next one, returns `cancelled`.
  virtual void cancel() = 0;
};

} // namespace pumice
