#pragma once

#include <cstddef>
#include <vector>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

// A guess on the slow side of what a dispatch takes on a device of which nothing is known.
double guessed_seconds(const Dispatch& dispatch, const Capabilities& device);

// What something takes, in seconds: a guess first, then what was measured. The estimate is that of round-trip
// times in TCP (Jacobson 1988), a moving mean and how far from it measurements stray; single ones that are
// far too long, because something else ran in between, count for little.
class Cost {
public:
  explicit Cost(double guess) : mean_(guess) {}

  double mean() const { return mean_; }
  // Such as is seldom exceeded.
  double expected() const { return mean_ + deviation_; }
  // Enough measurements to go by have been made.
  bool known() const { return samples_ >= enough; }
  void learn(double seconds);

private:
  static constexpr int enough = 3;

  double mean_;
  double deviation_ = 0;
  int samples_ = 0;
};

// The costs of the dispatches of one plan.
class CostTable {
public:
  explicit CostTable(const std::vector<double>& guesses);

  double expected(size_t dispatch) const { return costs_[dispatch].expected(); }
  double mean(size_t dispatch) const { return costs_[dispatch].mean(); }
  bool known(size_t dispatch) const { return costs_[dispatch].known(); }
  double largest() const; // mean of all
  void learn(size_t dispatch, double seconds) { costs_[dispatch].learn(seconds); }

private:
  std::vector<Cost> costs_;
};

// How much slower or faster than its costs a device runs at the moment: its clock moves, and it has other
// work to do.
class Pace {
public:
  // What costs are multiplied with, on the safe side.
  double factor() const { return ratio_.expected(); }
  double mean() const { return ratio_.mean(); }
  void learn(double expected_seconds, double seconds);

private:
  Cost ratio_ = Cost(1);
};

} // namespace pumice
