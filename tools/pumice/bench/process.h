#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

// Other programs, started to be measured.
namespace pumice::command {

struct ProcessOutput {
  int status = 0;     // exit status; 128 and the signal's number if a signal ended it, as in shells
  double seconds = 0; // from its start to its end
  std::string out, err;
};

// Runs a program to its end: `command[0]` is a path, or a name that is looked for in PATH. Standard input is
// empty. `environment`: variables to set or replace. Ctrl-C ends the program as well.
Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment = {});

} // namespace pumice::command
