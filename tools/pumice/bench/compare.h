#pragma once

#include <string>

#include "base/result.h"

namespace pumice::command {

struct CompareOptions {
  std::string a, b;   // files with the output of `pumice bench -o json`, of one or several processes
  double margin = 2;  // percent of speed within which both count as the same
  bool force = false; // compare even if the models or the devices differ
  bool fail_if_slower = false;
  bool json = false;
};

// Prints the speed of each test of B relative to the same test of A, and whether the difference is
// significant. Only files with several processes can show that.
Status compare_benches(const CompareOptions& options);

} // namespace pumice::command
