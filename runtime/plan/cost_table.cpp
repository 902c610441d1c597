#include "plan/cost_table.h"

#include <algorithm>
#include <cmath>

namespace pumice {

namespace {

// Shares of a new measurement in the mean and in the deviation.
constexpr double mean_gain = 1.0 / 8;
constexpr double deviation_gain = 1.0 / 4;
// A measurement counts as no more than so many times the mean: something else ran in between.
constexpr double most_times = 3;

constexpr double launch_seconds = 5e-6;

} // namespace

double guessed_seconds(const Dispatch& dispatch, const Capabilities& device) {
  const double flops_per_second = device.is_cpu() ? 20e9 : 500e9;
  const double bytes_per_second = device.is_cpu() ? 5e9 : 30e9;
  return dispatch.flops / flops_per_second + dispatch.bytes / bytes_per_second;
}

CostTable::CostTable(const std::vector<double>& guesses) {
  for (double guess : guesses) costs_.push_back({guess + launch_seconds, 0, false});
}

double CostTable::expected(size_t dispatch) const {
  return costs_[dispatch].mean + costs_[dispatch].deviation;
}

double CostTable::largest() const {
  double largest = 0;
  for (size_t i = 0; i < costs_.size(); ++i) largest = std::max(largest, expected(i));
  return largest;
}

void CostTable::learn(size_t dispatch, double seconds) {
  Cost& cost = costs_[dispatch];
  if (!cost.measured) {
    cost = {seconds, seconds / 4, true};
    return;
  }
  const double error = std::min(seconds, most_times * cost.mean) - cost.mean;
  cost.mean += mean_gain * error;
  cost.deviation += deviation_gain * (std::abs(error) - cost.deviation);
}

void Pace::learn(double expected_seconds, double seconds) {
  if (expected_seconds <= 0) return;
  const double error = std::min(seconds / expected_seconds, most_times * mean_) - mean_;
  mean_ = std::clamp(mean_ + mean_gain * error, 0.1, 10.0);
  deviation_ += deviation_gain * (std::abs(error) - deviation_);
}

} // namespace pumice
