#pragma once

#include <string>

#include "base/result.h"

namespace pumice::command {

struct CompareOptions {
  std::string a, b;     // what `pumice bench -o json` wrote
  double threshold = 3; // percent
  bool force = false;   // although they are of different models or devices
  bool json = false;
};

// How fast each test of B is beside the same one of A, and whether that is a difference.
Status compare_benches(const CompareOptions& options);

} // namespace pumice::command
