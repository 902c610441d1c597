#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/part.h"

namespace pumice::command {

// What came of a part in a child process.
struct PartOutcome {
  std::vector<Json> ends; // its lines {"end": NAME, ...}
  std::string trying;     // what it was trying when it failed; empty if it did all
  std::string failure;    // what happened then: "crashed (SIGSEGV)", "hangs: ...", "failed: ..."
  bool refused = false;   // it ended by itself with an error

  const Json* find(const std::string& name) const;
};

// Runs a part in a child process and waits for it. `on_end`: told of each end as it comes, also before an
// error. Errors: it could not be started; interrupted.
Result<PartOutcome> run_part(const DoctorOptions& options, const std::string& part, size_t from = 0,
                             const std::function<void(const Json& end)>& on_end = {});

} // namespace pumice::command
