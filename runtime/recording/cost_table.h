#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pumice {

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
  // The same costs, as guesses of something that has not been measured.
  CostTable as_guesses() const;

private:
  CostTable() = default;

  std::vector<Cost> costs_;
};

// The costs of a plan for steps of one size. Attention takes the longer the more positions it reads, so there
// is a table for steps that reach up to so many positions, and for each doubling of that. A table begins with
// the costs of the one before.
class StepCosts {
public:
  explicit StepCosts(const std::vector<double>& guesses) : tables_{std::make_shared<CostTable>(guesses)} {}

  // For a step whose last token is the sequence's token number `positions`.
  const std::shared_ptr<CostTable>& reaching(uint32_t positions);

private:
  std::vector<std::shared_ptr<CostTable>> tables_;
};

} // namespace pumice
