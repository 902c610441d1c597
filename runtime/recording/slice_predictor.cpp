#include "recording/slice_predictor.h"

#include <algorithm>
#include <cmath>

namespace pumice {

namespace {

// What a slice took more or less than expected corrects the speed and the costs by this part of it.
constexpr double gain = 1.0 / 8;
// At most so much is corrected at once, as a natural logarithm: nearly as many slices then take longer than
// expected as take less, however long a few of them were interrupted.
constexpr double most_surprise = 0.2;

// The number of latest slices that the margin is computed from, and the share of them that stays within it.
constexpr size_t window = 128;
constexpr double safe_share = 0.98;
// The margin covers each of so many latest slices: a device that was slow once stays slow for a while.
constexpr size_t cautious_slices = 4;
// A slice that took longer than this was interrupted, and no budget can allow for that.
constexpr double most_margin = 2;

} // namespace

void SlicePredictor::learn(std::span<const SliceEntry> entries, std::span<const double> points) {
  if (std::ranges::any_of(entries, &SliceEntry::timed)) {
    learn_dispatches(entries, points); // its timestamps have slowed the slice down
  } else {
    learn_slice(entries, points.back());
  }
}

void SlicePredictor::learn_dispatches(std::span<const SliceEntry> entries, std::span<const double> points) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const SliceEntry& entry = entries[i];
    Cost& cost = (*entry.costs)[entry.dispatch];
    if (!entry.timed || cost.known()) continue;
    const size_t after = i + 1 < entries.size() ? entries[i + 1].before : points.size() - 1;
    cost.measure((points[after] - points[entry.before]) / speed_);
  }
}

void SlicePredictor::learn_slice(std::span<const SliceEntry> entries, double seconds) {
  double costs = 0;
  for (const SliceEntry& entry : entries) costs += (*entry.costs)[entry.dispatch].seconds();
  const double ratio = seconds / expected(costs);
  if (!(ratio > 0)) return; // the clock of some devices stands still for short slices
  set_margin(ratio);
  const double factor = std::exp(gain * std::clamp(std::log(ratio), -most_surprise, most_surprise));
  speed_ *= factor;
  start_.scale(factor);
  for (const SliceEntry& entry : entries) (*entry.costs)[entry.dispatch].scale(factor);
}

void SlicePredictor::set_margin(double ratio) {
  if (ratios_.size() < window) ratios_.push_back(0);
  ratios_[next_] = ratio;
  double latest = 0;
  for (size_t i = 0; i < std::min(cautious_slices, ratios_.size()); ++i) {
    latest = std::max(latest, ratios_[(next_ + window - i) % window]);
  }
  next_ = (next_ + 1) % window;
  std::vector<double> ratios = ratios_;
  const auto at =
      ratios.begin() + static_cast<ptrdiff_t>(safe_share * static_cast<double>(ratios.size() - 1));
  std::ranges::nth_element(ratios, at);
  margin_ = std::clamp(std::max(latest, *at), 1.0, most_margin);
}

} // namespace pumice
