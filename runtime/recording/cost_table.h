#pragma once

#include <cstddef>
#include <vector>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

// A cautious guess of the seconds that a dispatch takes, before anything was measured on the device.
double guessed_seconds(const Dispatch& dispatch, const Capabilities& device);

// The cost of something in seconds: first a guess, then a moving mean of the measurements. A single
// measurement that is much too long, because other work ran in between, has little weight.
class Cost {
public:
  explicit Cost(double guess) : mean_(guess) {}

  double mean() const { return mean_; }
  // Whether there have been enough measurements to rely on.
  bool known() const { return samples_ >= enough; }
  void learn(double seconds);

private:
  static constexpr int enough = 2;

  double mean_;
  int samples_ = 0;
};

// The costs of the dispatches of one plan.
class CostTable {
public:
  explicit CostTable(const std::vector<double>& guesses);

  const Cost& operator[](size_t dispatch) const { return costs_[dispatch]; }
  double largest() const; // the largest mean of a dispatch
  void learn(size_t dispatch, double seconds) { costs_[dispatch].learn(seconds); }

private:
  std::vector<Cost> costs_;
};

// The ratio of measured to expected seconds of the latest slices: above 1, the device is slower at the moment
// than the costs say. It changes with the clock of the device and with its other work.
class DeviceSpeed {
public:
  double median() const { return median_; }
  // A ratio that only about two slices in a hundred exceed.
  double safe() const { return safe_; }
  void learn(double expected_seconds, double seconds);

private:
  std::vector<double> ratios_; // the latest, in a ring
  size_t next_ = 0;
  double median_ = 1;
  double safe_ = 1;
};

} // namespace pumice
