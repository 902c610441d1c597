#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/statistics.h"
#include "output/json_output.h"

// The result of a comparison, as 'bench ab' and 'bench compare' print it.
namespace pumice::command {

struct ComparedTest {
  std::string test;
  double a_seconds = 0, b_seconds = 0; // medians of the processes
  Comparison comparison;
};

// A table with the speed of B divided by that of A, its interval and the verdict.
std::string comparison_table(const std::vector<ComparedTest>& tests);
// "test", the seconds, "ratio", "low", "high", "verdict" and `more_key`.
Json to_json(const ComparedTest& test, const char* more_key);

// With --fail-if-slower: makes the exit status `exit_slower` if a test is slower.
inline constexpr int exit_slower = 2;
void fail_if_slower(const std::vector<ComparedTest>& tests);

} // namespace pumice::command
