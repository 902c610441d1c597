#include "recording/cost_table.h"

#include <algorithm>
#include <cmath>

namespace pumice {

namespace {

// Weight of a new measurement in the mean: of one below the mean, and of one above it.
constexpr double gain_down = 1.0 / 4, gain_up = 1.0 / 8;
// A measurement above this multiple of the mean is cut to it.
constexpr double most_times = 3;

// The number of latest slices that the speed of a device is computed from, and the share of them that stays
// below DeviceSpeed::safe().
constexpr size_t speed_window = 128;
constexpr double safe_share = 0.98;
// safe() is at least the ratio of each of so many latest slices: a device that was slow once stays slow for a
// while.
constexpr size_t cautious_slices = 4;
// safe() is at most this multiple of the median. A slice that took longer was interrupted, and no budget can
// allow for that.
constexpr double most_medians = 2;

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
  } else if (samples_ <= enough) {
    mean_ = std::min(mean_, seconds); // either measurement may have been disturbed
  } else {
    const double error = std::min(seconds, most_times * mean_) - mean_;
    mean_ += (error < 0 ? gain_down : gain_up) * error;
  }
}

void DeviceSpeed::learn(double expected_seconds, double seconds) {
  if (expected_seconds <= 0) return;
  if (ratios_.size() < speed_window) ratios_.push_back(0);
  ratios_[next_] = seconds / expected_seconds;
  double safe = 0;
  for (size_t i = 0; i < std::min(cautious_slices, ratios_.size()); ++i) {
    safe = std::max(safe, ratios_[(next_ + speed_window - i) % speed_window]);
  }
  next_ = (next_ + 1) % speed_window;
  std::vector<double> ratios = ratios_;
  const auto quantile = [&](double share) {
    const auto at = ratios.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(ratios.size() - 1));
    std::ranges::nth_element(ratios, at);
    return *at;
  };
  median_ = quantile(0.5);
  safe_ = std::min(std::max(safe, quantile(safe_share)), most_medians * median_);
}

} // namespace pumice
