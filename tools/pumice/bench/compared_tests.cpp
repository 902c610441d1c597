#include "bench/compared_tests.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice::command {

std::string comparison_table(const std::vector<ComparedTest>& tests) {
  size_t width = 4;
  for (const ComparedTest& each : tests) width = std::max(width, each.test.size());
  std::string result =
      fmt::format("| {:<{}} | {:>10} | {:>10} | {:>6} | {:>13} | {:<11} |\n|{:->{}}|-----------:|-----------:"
                  "|-------:|--------------:|-------------|\n",
                  "test", width, "A ms", "B ms", "speed", "99 % interval", "verdict", "", width + 2);
  for (const ComparedTest& each : tests) {
    const auto& interval = each.comparison.interval;
    result += fmt::format("| {:<{}} | {:>10.3f} | {:>10.3f} | {:>6.3f} | {:>13} | {:<11} |\n", each.test,
                          width, each.a_seconds * 1e3, each.b_seconds * 1e3, each.comparison.ratio,
                          interval ? fmt::format("{:.3f} - {:.3f}", interval->low, interval->high) : "",
                          to_string(each.comparison.verdict));
  }
  return result + "\n";
}

Json to_json(const ComparedTest& test, const char* more_key) {
  const Comparison& comparison = test.comparison;
  const auto& interval = comparison.interval;
  return {{"test", test.test},
          {"a_seconds", test.a_seconds},
          {"b_seconds", test.b_seconds},
          {"ratio", comparison.ratio},
          {"low", interval ? Json(interval->low) : Json(nullptr)},
          {"high", interval ? Json(interval->high) : Json(nullptr)},
          {"verdict", to_string(comparison.verdict)},
          {more_key, comparison.verdict == SpeedVerdict::unknown ? Json(comparison.more) : Json(nullptr)}};
}

void fail_if_slower(const std::vector<ComparedTest>& tests) {
  const auto slower = [](const ComparedTest& each) {
    return each.comparison.verdict == SpeedVerdict::slower;
  };
  if (std::ranges::any_of(tests, slower)) set_exit_status(exit_slower);
}

} // namespace pumice::command
