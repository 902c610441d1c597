#pragma once

#include <cstddef>
#include <vector>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

// A guess on the slow side of what a dispatch takes on a device of which nothing is known.
double guessed_seconds(const Dispatch& dispatch, const Capabilities& device);

// What the dispatches of one plan are expected to take: guesses first, then what was measured. The estimate
// is that of round-trip times in TCP (Jacobson 1988): a moving mean, and how far from it measurements stray.
class CostTable {
public:
  explicit CostTable(const std::vector<double>& guesses);

  // Seconds, such as are seldom exceeded.
  double expected(size_t dispatch) const;
  double largest() const; // of all
  bool measured(size_t dispatch) const { return costs_[dispatch].measured; }
  void learn(size_t dispatch, double seconds);

private:
  struct Cost {
    double mean = 0;
    double deviation = 0;
    bool measured = false;
  };
  std::vector<Cost> costs_;
};

// How much slower or faster than its costs a device runs at the moment: its clock moves, and it has other
// work to do.
class Pace {
public:
  // What costs are multiplied with, on the safe side.
  double factor() const { return mean_ + 2 * deviation_; }
  double mean() const { return mean_; }
  void learn(double expected_seconds, double seconds);

private:
  double mean_ = 1;
  double deviation_ = 0;
};

} // namespace pumice
