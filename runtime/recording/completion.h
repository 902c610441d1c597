#pragma once

#include <memory>
#include <variant>

#include "recording/time_slicer.h"

namespace pumice {

// Work that is submitted later, once what it depends on is there.
class DeferredWork {
public:
  virtual ~DeferredWork() = default;
  virtual Result<bool> finished() = 0;
  virtual Status wait() = 0;
};

// Tells when some work is done: at a point of a device's timeline, or with a slice. The device, the
// TimeSlicer or who submits deferred work must outlive it.
class Completion {
public:
  Completion() = default; // of no work: always done
  Completion(Device& device, TimelinePoint point) : when_(Submission{&device, point}) {}
  Completion(TimeSlicer& slices, SliceNumber number) : when_(Slice{&slices, number}) {}
  explicit Completion(std::shared_ptr<DeferredWork> work) : when_(std::move(work)) {}

  // Whether the work is done. A slice counts as done once TimeSlicer::poll() has seen it.
  Result<bool> finished() const;
  // Whether the work is done once this slice is. Work that is in no slice always is.
  bool done_with(SliceNumber slice) const;
  // Waits for the work. `not_ready` if it is in a command buffer that the application has not run yet, as in
  // TimeSlicer::wait().
  Status wait() const;

private:
  struct Submission {
    Device* device;
    TimelinePoint point;
  };
  struct Slice {
    TimeSlicer* slices;
    SliceNumber number;
  };

  std::variant<std::monostate, Submission, Slice, std::shared_ptr<DeferredWork>> when_;
};

} // namespace pumice
