#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/ab_side.h"

namespace pumice::command {

struct AbOptions {
  std::vector<std::string> words; // A, B, and what both get
  double margin = 2;              // percent of speed within which both count as the same
  double seconds = 180;           // the most that it takes
  bool seconds_given = false;
  uint32_t rounds = 0; // 0: as many as the time allows, and no more than verdicts need
  AbOrder order = AbOrder::alternate;
  bool fail_if_slower = false;
  bool json = false;
};

// Runs fresh processes of A and B in turn, in random order, and prints which one is faster.
Status compare_sides(const AbOptions& options);

} // namespace pumice::command
