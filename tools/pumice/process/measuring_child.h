#pragma once

#include "loading/open_device.h"

namespace pumice::command {

// The only argument of the child that measure_in_child() starts: main() then calls measure_as_child().
inline constexpr const char* measuring_argument = "--measuring-child";
int measure_as_child();

// What to measure, in a process that loads the model for itself.
struct MeasuringTask {
  std::string model; // its path
  LoadOptions load;
  TuneOptions how;
  // Whether the time limit of `how` ends also what does not answer then. What does not answer for a minute,
  // or five on a processor, is always ended.
  bool ends_in_time = false;
};

// As tune_model(), but in a child process: where a driver crashes or hangs while a variant is tried, that
// variant is blocked, and measuring goes on without it. After Ctrl-C the result has what was measured. Error
// unsupported if there is no such child; otherwise the child's own.
Result<Tuning> measure_in_child(const OpenedDevice& device, const MeasuringTask& task);

} // namespace pumice::command
