#pragma once

#include <variant>

#include "recording/time_slicer.h"

namespace pumice {

// When some work is done: at a point of a device's timeline, or with a slice. The device, or the slices, have
// to be there for as long as this is asked.
class Completion {
public:
  Completion() = default; // of nothing, which is done
  Completion(Device& device, TimelinePoint point) : when_(Submission{&device, point}) {}
  Completion(TimeSlicer& slices, SliceNumber number) : when_(Slice{&slices, number}) {}

  // Whether it is done: of a slice, as far as the slices have been looked at.
  Result<bool> finished() const;
  // Waits for it. `not_ready` where that is up to the application, as TimeSlicer::wait() has it.
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

  std::variant<std::monostate, Submission, Slice> when_;
};

} // namespace pumice
