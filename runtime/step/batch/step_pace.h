#pragma once

#include <cstdint>
#include <map>

namespace pumice {

// How many rows a step may have so that texts wait for its tokens no longer than a limit, by what steps took
// so far. It begins with small steps, and grows them by what they took.
class StepPace {
public:
  // `limit`: seconds; 0: there is none.
  explicit StepPace(double limit = 0) : limit_(limit) {}
  bool limited() const { return limit_ > 0; }

  // What a step of so many rows is expected to take before any was measured.
  void guess(uint32_t rows, double seconds) { guesses_[rows] = seconds; }
  void took(uint32_t rows, double seconds);
  // The most rows of the next step, `least` to `most`: `least` even if these take too long.
  uint32_t rows(uint32_t least, uint32_t most) const;
  // Seconds of a step of so many rows. What was not measured is reckoned from what was, rather too long.
  double expected(uint32_t rows) const;

private:
  struct Measured {
    uint32_t rows = 0;
    double seconds = 0;
    uint64_t step = 0; // the number of the last one
  };

  double limit_;
  std::map<uint32_t, double> guesses_;
  std::map<uint32_t, Measured> measured_; // by size class; more rows take no less
  uint64_t steps_ = 0;
};

} // namespace pumice
