#include "tools/pumice/bench/statistics.h"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice::command;

namespace {

constexpr double threshold = 0.03;

// Simulated times of a device: a normal distribution, with occasional disturbances by other work.
std::vector<double> noisy(std::mt19937& random, size_t count, double seconds, double spread) {
  std::normal_distribution<double> normal(1, spread);
  std::uniform_real_distribution<double> chance(0, 1);
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i) {
    times.push_back(seconds * normal(random) * (chance(random) < 0.05 ? 1.3 : 1.0));
  }
  return times;
}

struct Share {
  int faster = 0, slower = 0, all = 0;
};

Share verdicts(size_t count, double slowdown, double spread, double least = threshold) {
  Share share;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const std::vector<double> a = noisy(random, count, 0.02, spread);
    const std::vector<double> b = noisy(random, count, 0.02 * slowdown, spread);
    const SpeedRatio ratio = compare_speed(a, b, least);
    share.faster += ratio.verdict == Verdict::faster;
    share.slower += ratio.verdict == Verdict::slower;
    ++share.all;
  }
  return share;
}

} // namespace

TEST_CASE("medians, quantiles and deviations") {
  const std::array values = {4.0, 1.0, 3.0, 2.0};
  CHECK(median(values) == 2.5);
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(quantile(values, 0.9) == doctest::Approx(3.7));
  CHECK(mean(values) == 2.5);
  CHECK(deviation(values) == doctest::Approx(std::sqrt(5.0 / 3)));
  CHECK(deviation(std::array{7.0}) == 0);
  CHECK(median(std::array{7.0}) == 7);
}

TEST_CASE("a warm-up ends when its times are stable, whatever the first one was") {
  CHECK(!is_stable(std::array{9.0, 1.0}));
  CHECK(is_stable(std::array{9.0, 1.0, 1.0}));
  CHECK(!is_stable(std::array{9.0, 1.5, 1.0}));
  CHECK(!is_stable(std::array{9.0, 4.0, 3.0, 2.0, 1.0}));
  CHECK(is_stable(std::array{9.0, 4.0, 1.01, 1.0, 1.0, 1.01}));
  CHECK(is_stable(std::array{9.0, 1.0, 1.01, 2.0, 1.0})); // one disturbed time
}

TEST_CASE("the interval of two samples is that of Mann and Whitney's test") {
  // With two sets of five samples, there are 252 orders. Only the most extreme one at each end is outside 99
  // %.
  const std::array a = {10.0, 11.0, 12.0, 13.0, 14.0}, b = {1.0, 2.0, 3.0, 4.0, 5.0};
  const SpeedRatio ratio = compare_speed(a, b, threshold);
  CHECK(ratio.low == 10.0 / 5);
  CHECK(ratio.high == 14.0 / 1);
  CHECK(ratio.ratio == 12.0 / 3); // the middle one of 25
  CHECK(ratio.verdict == Verdict::faster);
  CHECK(compare_speed(b, a, threshold).verdict == Verdict::slower);
  const std::array meets = {5.1, 4.9, 12.0, 13.0, 14.0}; // one pair is in the other order
  CHECK(compare_speed(meets, b, threshold).verdict == Verdict::same);
}

TEST_CASE("too few samples, or none, are reported as such") {
  const std::array a = {10.0, 11.0, 12.0, 13.0}, b = {1.0, 2.0, 3.0, 4.0};
  CHECK(compare_speed(a, b, threshold).verdict == Verdict::too_few_samples);
  CHECK(compare_speed({}, b, threshold).verdict == Verdict::too_few_samples);
  const std::vector<double> five(samples_needed, 1.0);
  CHECK(compare_speed(five, five, threshold).verdict == Verdict::same);
}

TEST_CASE("two runs of the same thing show no difference") {
  for (const size_t count : {5u, 10u, 30u, 60u}) { // the large counts use the normal distribution
    for (const double spread : {0.005, 0.02, 0.1}) {
      CAPTURE(count);
      CAPTURE(spread);
      const Share with = verdicts(count, 1, spread);
      CHECK(with.faster + with.slower <= with.all * 0.015);
      const Share without = verdicts(count, 1, spread, 0); // the interval alone
      CHECK(without.faster + without.slower <= without.all * 0.02);
    }
  }
}

TEST_CASE("a run that is slower or faster by a tenth is detected") {
  CHECK(verdicts(5, 1.1, 0.01).slower >= 240); // one disturbed sample of five is enough to hide it
  CHECK(verdicts(10, 1.1, 0.02).slower >= 360);
  CHECK(verdicts(20, 1.1, 0.03).slower >= 392);
  CHECK(verdicts(60, 1.1, 0.05).slower >= 396);
  CHECK(verdicts(20, 1 / 1.1, 0.03).faster >= 392);
  CHECK(verdicts(20, 1.1, 0.03).faster == 0);
}

TEST_CASE("a difference below the threshold is ignored, however significant it is") {
  std::mt19937 random(1);
  const std::vector<double> a = noisy(random, 60, 1, 0.001), b = noisy(random, 60, 1.02, 0.001);
  const SpeedRatio ratio = compare_speed(a, b, threshold);
  CHECK(ratio.high < 1);
  CHECK(ratio.verdict == Verdict::same);
  CHECK(compare_speed(a, b, 0.01).verdict == Verdict::slower);
}

TEST_CASE("a difference smaller than the machine's own drift is not reported") {
  const std::array steady = {1.0, 1.01, 1.0, 1.02, 1.0, 1.01}, drifting = {1.04, 1.05, 1.1, 1.2, 1.25, 1.3};
  CHECK(drift(steady) < 0.02);
  CHECK(drift(drifting) == doctest::Approx(1.25 / 1.05 - 1));
  CHECK(drift(std::array{2.0}) == 0);
  const SpeedRatio ratio = compare_speed(steady, drifting, threshold);
  CHECK(ratio.high < 1);
  CHECK(ratio.verdict == Verdict::same);
}
