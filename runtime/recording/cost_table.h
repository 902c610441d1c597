#pragma once

#include <cstddef>
#include <vector>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

// A guess on the slow side of what a dispatch takes on a device of which nothing is known.
double guessed_seconds(const Dispatch& dispatch, const Capabilities& device);

// What something takes, in seconds: a guess first, then a moving mean of what was measured, in which single
// measurements that are far too long, because something else ran in between, count for little.
class Cost {
public:
  explicit Cost(double guess) : mean_(guess) {}

  double mean() const { return mean_; }
  // Enough measurements to go by have been made.
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
  double largest() const; // mean of all
  void learn(size_t dispatch, double seconds) { costs_[dispatch].learn(seconds); }

private:
  std::vector<Cost> costs_;
};

// How much slower or faster than its costs a device runs at the moment: its clock moves, and it has other
// work to do.
class DeviceSpeed {
public:
  double median() const { return median_; }
  // What work seldom takes more than, times its costs: of a hundred times in two or so.
  double safe() const { return safe_; }
  void learn(double expected_seconds, double seconds);

private:
  std::vector<double> ratios_; // the latest, in a ring
  size_t next_ = 0;
  double median_ = 1;
  double safe_ = 1;
};

} // namespace pumice
