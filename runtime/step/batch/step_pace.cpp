#include "step/batch/step_pace.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pumice {

namespace {

// Of the limit, for what is expected: steps of the same size do not all take the same.
constexpr double pace_margin = 0.85;
constexpr double pace_decay = 0.75;   // of a measurement, with each shorter one after it
constexpr uint64_t pace_memory = 100; // steps
// Rows of others than `least` in a step before any was measured.
constexpr uint32_t untried_rows = 16;

// Two classes for each power of two.
uint32_t class_of(uint32_t rows) {
  const uint32_t power = std::bit_floor(rows);
  return rows >= power + power / 2 ? power + power / 2 : power;
}

} // namespace

// A longer time counts at once, a shorter one by and by. Since more rows take no less, it also tells
// something of other sizes. What was not measured again for long may be tried again.
void StepPace::took(uint32_t rows, double seconds) {
  const uint32_t own = class_of(rows);
  const auto found = measured_.find(own);
  const double before = found == measured_.end() ? 0 : found->second.seconds;
  const double now = std::max(seconds, pace_decay * before + (1 - pace_decay) * seconds);
  measured_[own] = {rows, now, ++steps_};
  std::erase_if(measured_, [&](const auto& each) {
    const auto& [size, measured] = each;
    return measured.step + pace_memory < steps_ || (size > own && measured.seconds < seconds);
  });
  for (auto& [size, measured] : measured_) {
    if (size < own) measured.seconds = std::min(measured.seconds, now);
  }
}

double StepPace::expected(uint32_t rows) const {
  if (measured_.empty()) {
    const auto guess = guesses_.lower_bound(rows);
    return guess == guesses_.end() ? HUGE_VAL : guess->second;
  }
  const auto after =
      std::ranges::find_if(measured_, [&](const auto& each) { return each.second.rows >= rows; });
  if (after == measured_.begin()) return after->second.seconds;
  const Measured& low = std::prev(after)->second;
  if (after == measured_.end()) return low.seconds * rows / low.rows;
  const Measured& high = after->second;
  const double share = double(rows - low.rows) / (high.rows - low.rows);
  return low.seconds + share * (high.seconds - low.seconds);
}

uint32_t StepPace::rows(uint32_t least, uint32_t most) const {
  if (!limited()) return most;
  if (measured_.empty()) most = std::min(most, least + untried_rows);
  uint32_t rows = std::min(least, most);
  while (rows < most && expected(rows + 1) <= pace_margin * limit_) ++rows;
  return rows;
}

} // namespace pumice
