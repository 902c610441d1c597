#pragma once

#include <string>

#include "base/result.h"

namespace pumice::command {

struct CompareOptions {
  std::string a, b;     // files with the output of `pumice bench -o json`
  double threshold = 3; // percent of speed that a difference must exceed
  bool force = false;   // compare even if the models or the devices differ
  bool json = false;
};

// Prints the speed of each test of B relative to the same test of A, and whether the difference is
// significant.
Status compare_benches(const CompareOptions& options);

} // namespace pumice::command
