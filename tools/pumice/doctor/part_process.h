#pragma once

#include <string>
#include <vector>

#include "tools/pumice/doctor/part.h"
#include "tools/pumice/json_output.h"

namespace pumice::command {

// What came of a part in a process of its own.
struct PartOutcome {
  std::vector<Json> ends; // its lines {"end": NAME, ...}
  std::string trying;     // what it was trying when it failed; empty if it did all
  std::string failure;    // "was ended by signal 11 (Segmentation fault)", a clause
  bool survived = true;   // false: the driver crashed or hung, or the device was lost

  const Json* find(const std::string& name) const;
};

// Runs a part and waits for it. Errors: it could not be started; interrupted.
Result<PartOutcome> run_part_process(const DoctorOptions& options, const std::string& part, size_t from = 0);

} // namespace pumice::command
