#pragma once

#include <memory>
#include <span>
#include <vector>

#include "recording/cost_table.h"

namespace pumice {

// A dispatch of a slice.
struct SliceEntry {
  std::shared_ptr<CostTable> costs;
  size_t dispatch = 0;
  bool timed = false;  // there are timestamps before and after it
  uint32_t before = 0; // index of the latest timestamp before it
};

// Predicts how long slices take on the device, and learns from how long they took.
//
// A slice takes the sum of its dispatches' costs and of its own start, times the speed of the device at the
// moment. Dispatches are measured one by one at first. Timestamps between dispatches cost time, so later
// slices are measured as a whole: what a slice took more or less than expected corrects the speed, and the
// costs of all that is in the slice. As slices are cut in different places, each cost is found.
class SlicePredictor {
public:
  // Seconds of dispatches with this sum of costs: about as many slices take longer as take less.
  double expected(double costs) const { return speed_ * (start_.seconds() + costs); }
  // Seconds that only about two such slices in a hundred exceed.
  double safe(double costs) const { return margin_ * expected(costs); }
  // Seconds of a dispatch of this cost within a slice.
  double dispatch(double cost) const { return speed_ * cost; }

  // `points`: seconds at the slice's timestamps, the first of which is 0 and the last its end.
  void learn(std::span<const SliceEntry> entries, std::span<const double> points);

private:
  void learn_dispatches(std::span<const SliceEntry> entries, std::span<const double> points);
  void learn_slice(std::span<const SliceEntry> entries, double seconds);
  void set_margin(double ratio);

  Cost start_ = Cost(20e-6);
  double speed_ = 1;           // above 1: the device is slower at the moment than the costs say
  double margin_ = 1;          // of safe()
  std::vector<double> ratios_; // of measured to expected seconds of the latest slices, in a ring
  size_t next_ = 0;
};

} // namespace pumice
