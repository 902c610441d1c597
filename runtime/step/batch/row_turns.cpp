#include "step/batch/row_turns.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pumice {

namespace {

constexpr size_t few_steps = 3, most_steps = 7;
constexpr double least_gain = 1.03;
constexpr uint64_t turns_memory = 256; // steps, after which a size that has not run is tried again

} // namespace

// The median: on a busy machine single steps take any time.
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
  const double together = recent(size_of(texts));
  if (together == 0) return texts;
  double best = least_gain * texts / together;
  uint32_t rows = texts;
  for (const auto& [size, steps] : measured_) {
    if (size >= texts) break;
    const double seconds = steps.typical();
    if (seconds == 0 || size / seconds <= best) continue;
    best = size / seconds;
    rows = size;
  }
  // Without padding, and with the kernels for few rows.
  const auto whole = std::ranges::upper_bound(sizes_, texts);
  for (const uint32_t other :
       {whole == sizes_.begin() ? texts : *std::prev(whole), std::bit_floor(rows - 1)}) {
    if (other > 0 && other < texts && recent(other) == 0) return other;
  }
  return rows;
}

} // namespace pumice
