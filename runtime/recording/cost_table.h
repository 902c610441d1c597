#pragma once

#include <cstddef>
#include <vector>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

// A cautious guess of the seconds that a dispatch takes, before anything was measured on the device.
double guessed_seconds(const Dispatch& dispatch, const Capabilities& device);

// The cost of something in seconds: first a guess, then what was measured, then corrected little by little.
class Cost {
public:
  explicit Cost(double guess) : seconds_(guess) {}

  double seconds() const { return seconds_; }
  // Whether there have been enough measurements to rely on.
  bool known() const { return samples_ >= enough; }
  // Takes a measurement of its own. Only until it is known.
  void measure(double seconds);
  void scale(double factor) { seconds_ *= factor; }

private:
  static constexpr int enough = 2;

  double seconds_;
  int samples_ = 0;
};

// The costs of the dispatches of one plan.
class CostTable {
public:
  explicit CostTable(const std::vector<double>& guesses);

  Cost& operator[](size_t dispatch) { return costs_[dispatch]; }
  const Cost& operator[](size_t dispatch) const { return costs_[dispatch]; }
  double largest() const; // of a dispatch, in seconds

private:
  std::vector<Cost> costs_;
};

} // namespace pumice
