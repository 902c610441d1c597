#include "plan/cost_table.h"

#include <algorithm>
#include <cmath>

namespace pumice {

namespace {

// Shares of a new measurement in the mean, one that is less than it and one that is more, and in the
// deviation.
constexpr double gain_down = 1.0 / 4, gain_up = 1.0 / 8, deviation_gain = 1.0 / 4;
// A measurement counts as no more than so many times the mean.
constexpr double most_times = 3;

constexpr double launch_seconds = 5e-6;

} // namespace

double guessed_seconds(const Dispatch& dispatch, const Capabilities& device) {
  const double flops_per_second = device.is_cpu() ? 20e9 : 500e9;
  const double bytes_per_second = device.is_cpu() ? 5e9 : 30e9;
  return dispatch.flops / flops_per_second + dispatch.bytes / bytes_per_second;
}

CostTable::CostTable(const std::vector<double>& guesses) {
  for (double guess : guesses) costs_.emplace_back(guess + launch_seconds);
}

double CostTable::largest() const {
  double largest = 0;
  for (const Cost& cost : costs_) largest = std::max(largest, cost.mean());
  return largest;
}

void Cost::learn(double seconds) {
  if (samples_++ == 0) {
    mean_ = seconds;
    deviation_ = seconds / 4;
    return;
  }
  const double error = std::min(seconds, most_times * mean_) - mean_;
  // Of the first few, those that were disturbed are as likely to be in the mean as not.
  mean_ = samples_ <= enough ? std::min(mean_, seconds) : mean_ + (error < 0 ? gain_down : gain_up) * error;
  deviation_ = samples_ <= enough ? mean_ / 4 : deviation_ + deviation_gain * (std::abs(error) - deviation_);
}

void Pace::learn(double expected_seconds, double seconds) {
  if (expected_seconds > 0) ratio_.learn(std::clamp(seconds / expected_seconds, 0.1, 10.0));
}

} // namespace pumice
