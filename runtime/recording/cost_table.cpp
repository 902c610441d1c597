#include "recording/cost_table.h"

#include <algorithm>
#include <bit>

namespace pumice {

namespace {

constexpr double launch_seconds = 5e-6;

// The positions of the first table of StepCosts: with fewer, attention is a small part of a step.
constexpr uint32_t first_positions = 128;

} // namespace

CostTable::CostTable(const std::vector<double>& guesses) {
  for (double guess : guesses) costs_.emplace_back(guess + launch_seconds);
}

double CostTable::largest() const {
  double largest = 0;
  for (const Cost& cost : costs_) largest = std::max(largest, cost.seconds());
  return largest;
}

CostTable CostTable::as_guesses() const {
  CostTable guesses;
  for (const Cost& cost : costs_) guesses.costs_.emplace_back(cost.seconds());
  return guesses;
}

const std::shared_ptr<CostTable>& StepCosts::reaching(uint32_t positions) {
  const auto table = static_cast<size_t>(std::bit_width(positions / first_positions));
  while (tables_.size() <= table) {
    tables_.push_back(std::make_shared<CostTable>(tables_.back()->as_guesses()));
  }
  return tables_[table];
}

// The smallest measurement: the others may have been disturbed.
void Cost::measure(double seconds) {
  seconds_ = samples_++ == 0 ? seconds : std::min(seconds_, seconds);
}

} // namespace pumice
