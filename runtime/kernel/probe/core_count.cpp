#include "kernel/probe/core_count.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pumice {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Other programs only lengthen it.
Result<double> shortest(const TimeGrid& time, uint32_t groups, uint32_t rounds) {
  constexpr int runs = 3;
  double least = 0;
  for (int run = 0; run < runs; ++run) {
    PUMICE_TRY(const double seconds, time(groups, rounds));
    least = run == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

} // namespace

uint32_t cores_of(std::span<const GridTime> times) {
  if (times.empty()) return 0;
  const double least = std::ranges::min_element(times, {}, &GridTime::seconds)->seconds;
  if (!(least > 0)) return 0; // clocks have risen meanwhile
  std::vector<double> flat, slopes;
  for (const GridTime& each : times) {
    if (each.seconds < 1.25 * least) flat.push_back(each.seconds);
  }
  const double one = median(flat);
  // The median of all slopes between two points: a few that were disturbed do not change it. Whole waves of
  // workgroups make steps in the curve, which are small where it is far up.
  const auto risen = [&](const GridTime& each) { return each.seconds > 3 * one; };
  for (const GridTime& a : times) {
    for (const GridTime& b : times) {
      if (b.groups > a.groups && risen(a) && risen(b))
        slopes.push_back((b.seconds - a.seconds) / (b.groups - a.groups));
    }
  }
  constexpr size_t least_slopes = 3; // of three points
  if (!(one > 0) || slopes.size() < least_slopes) return 0;
  const double cores = std::round(one / median(slopes));
  return cores >= 1 && cores <= most_grid ? static_cast<uint32_t>(cores) : 0;
}

Result<uint32_t> count_cores(const TimeGrid& time) {
  constexpr uint32_t most_rounds = 1u << 16;
  constexpr double enough_seconds = 0.2e-3, most_seconds = 20e-3;
  PUMICE_CHECK(time(1, 1)); // the driver may compile in it
  PUMICE_TRY(const double idle, shortest(time, 1, 1));
  uint32_t rounds = 16;
  double one = 0;
  for (; rounds <= most_rounds; rounds *= 2) {
    PUMICE_TRY(const double seconds, shortest(time, 1, rounds));
    one = seconds - idle;
    if (one > std::max(enough_seconds, 2 * idle)) break;
  }
  if (!(one > enough_seconds) || one > most_seconds) return 0u;
  std::vector<GridTime> times = {{1, one}};
  const auto add = [&](uint32_t groups) -> Status {
    PUMICE_TRY(const double seconds, shortest(time, groups, rounds));
    times.push_back({groups, seconds - idle});
    return {};
  };
  uint32_t groups = 1;
  while (times.back().seconds < 6 * one && groups < most_grid) {
    groups *= 2;
    PUMICE_CHECK(add(groups));
  }
  if (groups < 2) return 0u;
  constexpr uint32_t more = 8; // points of the rising part
  for (uint32_t i = 1; i < more; ++i) PUMICE_CHECK(add(groups / 2 + groups * i / (2 * more)));
  return cores_of(times);
}

} // namespace pumice
