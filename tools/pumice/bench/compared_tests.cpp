#include "bench/compared_tests.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/report.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

std::string interval_text(const ComparedTest& test) {
  const auto& interval = test.comparison.interval;
  return interval ? fmt::format("{:.3f} - {:.3f}", interval->low, interval->high) : "";
}

std::string narrow_table(const std::vector<ComparedTest>& tests) {
  std::vector<std::vector<std::string>> rows = {
      {"test", "A ms", "B ms", "speed", "99 % interval", "verdict"}};
  for (const ComparedTest& each : tests) {
    rows.push_back({each.test, fmt::format("{:.3f}", each.a_seconds * 1e3),
                    fmt::format("{:.3f}", each.b_seconds * 1e3), fmt::format("{:.3f}", each.comparison.ratio),
                    interval_text(each), to_string(each.comparison.verdict)});
  }
  return markdown_table(std::move(rows), 1) + "\n";
}

} // namespace

std::string comparison_table(const std::vector<ComparedTest>& tests) {
  constexpr size_t others = 69; // columns, beside the tests' names
  size_t width = 4;
  for (const ComparedTest& each : tests) width = std::max(width, each.test.size());
  if (stdout_columns() > 0 && stdout_columns() < width + others) return narrow_table(tests);
  std::string result =
      fmt::format("| {:<{}} | {:>10} | {:>10} | {:>6} | {:>13} | {:<11} |\n|{:->{}}|-----------:|-----------:"
                  "|-------:|--------------:|-------------|\n",
                  "test", width, "A ms", "B ms", "speed", "99 % interval", "verdict", "", width + 2);
  for (const ComparedTest& each : tests) {
    result += fmt::format("| {:<{}} | {:>10.3f} | {:>10.3f} | {:>6.3f} | {:>13} | {:<11} |\n", each.test,
                          width, each.a_seconds * 1e3, each.b_seconds * 1e3, each.comparison.ratio,
                          interval_text(each), to_string(each.comparison.verdict));
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
