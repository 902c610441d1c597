#include "step/batch/row_turns.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pumice {

namespace {

constexpr size_t few_steps = 3, most_steps = 7;
constexpr double least_gain = 1.03;
constexpr uint64_t turns_memory = 256; // steps, after which a size that has not run is tried again
constexpr uint64_t first_steps = 16;   // in which nothing is tried that would only pay in a long run
// Kernels of CPU drivers multiply blocks of so many rows. What is left over costs nearly as much as a step
// of its own.
constexpr uint32_t block_rows = 16;
constexpr uint32_t most_turns = 4; // steps, in one of which each text has a row

} // namespace

// The median: what else the process does counts, too.
double RowTurns::Steps::typical() const {
  if (seconds.size() < few_steps) return 0;
  std::vector<double> sorted(seconds.begin(), seconds.end());
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

uint32_t RowTurns::size_of(uint32_t rows) const {
  const auto found = std::ranges::lower_bound(sizes_, rows);
  return found == sizes_.end() ? rows : *found;
}

void RowTurns::took(uint32_t rows, double seconds) {
  Steps& steps = measured_[size_of(rows)];
  steps.latest = ++steps_;
  if (!std::exchange(steps.began, true)) return;
  steps.seconds.push_back(seconds);
  if (steps.seconds.size() > most_steps) steps.seconds.pop_front();
}

double RowTurns::recent(uint32_t size) {
  Steps& steps = measured_[size];
  if (steps.latest + turns_memory < steps_) steps.seconds.clear();
  return steps.typical();
}

uint32_t RowTurns::rows(uint32_t texts) {
  const auto above = std::ranges::upper_bound(sizes_, texts);
  const uint32_t without_padding = above == sizes_.begin() ? texts : *std::prev(above);
  const uint32_t likely = texts > block_rows ? std::bit_floor(texts) : texts;
  for (const uint32_t each : {likely, texts, without_padding}) {
    if (recent(size_of(each)) == 0) return each;
  }
  double best = least_gain * texts / recent(size_of(texts));
  uint32_t rows = texts;
  for (const auto& [size, steps] : measured_) {
    if (size >= texts) break;
    const double seconds = steps.typical();
    if (seconds == 0 || size * most_turns < texts || size / seconds <= best) continue;
    best = size / seconds;
    rows = size;
  }
  if (steps_ < first_steps) return rows;
  uint32_t fewer = std::bit_floor(rows - 1);
  const uint32_t fewest = std::min(block_rows, fewer);
  for (; fewer > 0 && fewer >= fewest && fewer * most_turns >= texts; fewer /= 2) {
    if (recent(fewer) == 0) return fewer;
  }
  return rows;
}

} // namespace pumice
