// How long slices of time are expected to take, on a device that is made up.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "recording/slice_predictor.h"
#include "support/sanitized.h"

using namespace pumice;

namespace {

// Runs steps in slices. Dispatches take their time times some noise, timestamps and the start of a slice take
// theirs.
class MadeUpDevice {
public:
  explicit MadeUpDevice(size_t dispatches)
      : seconds_(dispatches), costs_(std::make_shared<CostTable>(std::vector<double>(dispatches, 1e-3))) {
    std::lognormal_distribution<double> seconds(std::log(60e-6), 0.8);
    for (double& each : seconds_) each = seconds(random_);
  }

  struct Slice {
    double expected, actual;
  };
  // The next slice, cut as TimeSlicer cuts it.
  Slice run(double budget) {
    std::vector<SliceEntry> entries;
    double costs = 0, now = start_seconds;
    std::vector<double> points = {0};
    std::normal_distribution<double> noise(1, 0.06);
    while (entries.empty() || predictor.safe(costs + (*costs_)[next_].seconds()) <= budget) {
      SliceEntry entry{costs_, next_, !(*costs_)[next_].known(), 0};
      if (!entries.empty() && (entry.timed || entries.back().timed)) points.push_back(now += point_seconds);
      entry.before = static_cast<uint32_t>(points.size() - 1);
      entries.push_back(entry);
      costs += (*costs_)[next_].seconds();
      now += slowness * std::max(0.5, noise(random_)) * seconds_[next_];
      next_ = (next_ + 1) % seconds_.size();
      if (next_ == 0) break; // the host has to read the token
    }
    if (std::uniform_real_distribution<double>()(random_) < interrupted) now += 10e-3;
    points.push_back(now + point_seconds);
    const Slice slice = {predictor.expected(costs), points.back()};
    predictor.learn(entries, points);
    return slice;
  }
  double largest() const { return predictor.dispatch(costs_->largest()); }
  std::vector<double>& seconds() { return seconds_; }

  SlicePredictor predictor;
  double slowness = 1;
  double interrupted = 0; // the share of slices that other work stops for 10 ms

private:
  static constexpr double start_seconds = 50e-6, point_seconds = 45e-6;

  std::mt19937 random_{1};
  std::vector<double> seconds_;
  std::shared_ptr<CostTable> costs_;
  size_t next_ = 0;
};

struct Summary {
  double median, beyond, used; // of actual to expected; share beyond budget and largest; of the budget
};

Summary summary(MadeUpDevice& device, double budget, int slices) {
  std::vector<double> ratios, used;
  int beyond = 0;
  for (int i = 0; i < slices; ++i) {
    const double largest = device.largest();
    const MadeUpDevice::Slice slice = device.run(budget);
    ratios.push_back(slice.actual / slice.expected);
    used.push_back(slice.actual / budget);
    beyond += slice.actual > budget + largest;
  }
  std::ranges::sort(ratios);
  std::ranges::sort(used);
  return {ratios[ratios.size() / 2], beyond / static_cast<double>(slices), used[used.size() / 2]};
}

} // namespace

TEST_CASE("slices take what was expected, though timestamps between dispatches take long") {
  for (const double budget : {300e-6, 500e-6, 2e-3, 8e-3}) {
    CAPTURE(budget);
    MadeUpDevice device(200);
    (void)summary(device, 1e-3, 300); // warms up
    const Summary all = summary(device, budget, 2000);
    CHECK(all.median == doctest::Approx(1).epsilon(0.05));
    CHECK(all.beyond <= 0.01);
    if (budget > 1e-3) CHECK(all.used > 0.75);
  }
}

TEST_CASE("what is expected does not depend on interruptions, and follows the device's speed") {
  MadeUpDevice device(200);
  (void)summary(device, 1e-3, 300);
  device.interrupted = 0.05;
  Summary all = summary(device, 2e-3, 2000);
  CHECK(all.median == doctest::Approx(1).epsilon(0.07));
  CHECK(all.beyond <= 0.06);
  for (const double slowness : {2.0, 0.7}) {
    CAPTURE(slowness);
    device.slowness = slowness;
    (void)summary(device, 2e-3, 100);
    all = summary(device, 2e-3, 500);
    CHECK(all.median == doctest::Approx(1).epsilon(0.07));
  }
}

TEST_CASE("a dispatch that takes longer from step to step is found") {
  MadeUpDevice device(200);
  (void)summary(device, 1e-3, 300);
  for (double& seconds : device.seconds()) seconds = 20e-6;
  for (size_t i = 0; i < 200; i += 10) device.seconds()[i] = 400e-6; // attention, after a long prompt
  (void)summary(device, 500e-6, 1000);
  const Summary all = summary(device, 500e-6, 2000);
  CHECK(all.median == doctest::Approx(1).epsilon(0.1));
  CHECK(all.beyond <= 0.01);
}

TEST_CASE("costs stay numbers for as long as a program runs") {
  MadeUpDevice device(30);
  device.interrupted = 0.1;
  (void)summary(device, 1e-3, sanitized ? 30'000 : 300'000);
  CHECK(device.predictor.expected(0) > 1e-6);
  CHECK(device.predictor.expected(0) < 1e-2);
  CHECK(summary(device, 1e-3, 1000).median == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("steps that reach far have costs of their own") {
  StepCosts costs({1e-3, 2e-3});
  const std::shared_ptr<CostTable> near = costs.reaching(1);
  CHECK(costs.reaching(127) == near);
  (*near)[0].measure(3e-3);
  (*near)[0].measure(3e-3);
  const std::shared_ptr<CostTable> far = costs.reaching(1000);
  CHECK(far != near);
  CHECK(costs.reaching(900) == far);
  CHECK(costs.reaching(1024) != far);
  CHECK((*far)[0].seconds() == 3e-3);
  CHECK_FALSE((*far)[0].known());
  CHECK(near->largest() == 3e-3);
  (*far)[0].measure(5e-3);
  CHECK(far->largest() == 5e-3);
  CHECK(costs.reaching(5) == near);
  CHECK((*near)[0].seconds() == 3e-3);
}
