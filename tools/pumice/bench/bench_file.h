#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "output/json_output.h"

// What `pumice bench -o json` writes, read again.
namespace pumice::command {

// The samples of one test in one process, in seconds.
struct Timing {
  std::string test;
  std::vector<double> seconds;
  bool stable = true;
};

struct BenchedProcess {
  Json json;
  std::vector<Timing>
      timings; // of the tests; then their first tokens; then the cold start, where they have them
};

// `text`: one such object or several, one after another, each of a process of its own. `source` names it in
// errors.
Result<std::vector<BenchedProcess>> read_benched(const std::string& text, const std::string& source);

} // namespace pumice::command
