#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Statistics of measured times.
namespace pumice::command {

double mean(std::span<const double> values);
double deviation(std::span<const double> values); // sample standard deviation; 0 for fewer than two values
// The quantile at `share` (0 to 1), interpolated linearly between values. Needs at least one value.
double quantile(std::span<const double> values, double share);
inline double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

// Whether the times of warm-up runs are stable: the median of the last three runs is within `stable_change`
// of the median of the three that end one run earlier. The first run does not count, because it compiles.
// With few runs, the medians are of fewer than three.
bool is_stable(std::span<const double> seconds);
inline constexpr double stable_change = 0.025;

// The relative difference between the median of the second half of the samples and that of the first half.
double drift(std::span<const double> seconds);
// The distance between the quantiles at 10 and 90 %, as a share of the median.
double spread(std::span<const double> seconds);
// Samples that differ by more than this, or drift by more than this, are not stable.
inline constexpr double stable_spread = 0.15, stable_drift = 0.05;
// Why the samples are not stable, in words; empty if they are.
std::string why_unstable(std::span<const double> seconds);

struct Interval {
  double low = 0, high = 0;
};

// Where the median of what was measured lies with 95 % confidence, by the sign test: between two of the
// values, whatever their distribution. None for fewer than six values.
std::optional<Interval> median_interval(std::span<const double> values);

enum class SpeedVerdict {
  faster,  // B is faster than A: the whole interval is above 1
  slower,  // it is below 1
  same,    // the interval is within the margin around 1
  unknown, // none of these
};
const char* to_string(SpeedVerdict verdict);

// The speed of B divided by the speed of A.
struct Comparison {
  double ratio = 1;
  std::optional<Interval> interval; // of the ratio; none with too few values, which may be far from 1 still
  SpeedVerdict verdict = SpeedVerdict::unknown;
  size_t more = 0; // if the verdict is unknown: about so many more values of each side would give another one
};

// What a comparison may get wrong: a verdict of "faster" or "slower" between equal programs.
inline constexpr double confidence = 0.99;

// A process of A and one of B, in an order that was drawn by lot.
struct Round {
  double a_seconds = 0, b_seconds = 0;
  // The share of all processors that something else had meanwhile.
  double a_disturbed = 0, b_disturbed = 0;
  // The time of A divided by that of B, where it is not just the quotient of the two.
  std::optional<double> quotient = {};
  // How far the logarithm of `quotient` is off because the round has only so many pairs: a standard
  // deviation.
  double pair_error = 0;
};

// The round of two processes whose samples alternated. What disturbs the machine for longer than a sample
// disturbs both of a pair, so the quotients of pairs tell more than the quotient of the means; their median
// is not moved by what disturbs one of a pair.
Round alternated_round(std::span<const double> a_seconds, std::span<const double> b_seconds);

// Whether rounds of half as many pairs would say nearly as much: what differs between processes is more than
// three times what differs within them, as variances. Swapping A and B in any rounds does not change it.
bool has_spare_pairs(std::span<const Round> rounds);

// Compares A and B by rounds. With too few for an interval there is a verdict only where at least three say
// the same by more than a factor of two, and by more than three times what they are apart. The interval has
// all ratios that Wilcoxon's signed-rank test of the rounds' logarithmic ratios does not reject at the level
// `error`. Because the order was drawn by lot, swapping the names of A and B in any rounds is equally likely
// if they are the same. So the test holds its level whatever the noise is: heavy tails, drift, or bursts that
// last longer than a round. Beforehand, the ratios are corrected by what the difference in disturbance
// explains of them. The correction is the same whichever way the names are swapped.
Comparison compare_rounds(std::span<const Round> rounds, double error, double margin);

// What stands for a process where no disturbance is known: the lower quartile of its samples. What disturbs a
// process makes times longer, so the lower ones say more, and the lowest one alone is luck.
inline double quiet_time(std::span<const double> seconds) {
  return quantile(seconds, 0.25);
}

// Compares processes of A with processes of B that were measured at other times, one value of each process.
// The interval is that of the Mann-Whitney test. It assumes that the machine was the same in both times. As a
// guard, the verdict is unknown while the ratio is not further from 1 than A or B drift by themselves.
Comparison compare_processes(std::span<const double> a_seconds, std::span<const double> b_seconds,
                             double error, double margin);

// A comparison by rounds that may end early. It looks at the rounds so far at fixed parts of the measurement.
// The error that is permitted altogether is divided among the looks, most of it for the last one.
class GrowingComparison {
public:
  GrowingComparison(double error, double margin) : error_(error), margin_(margin) {}

  void add(const Round& round) { rounds_.push_back(round); }
  // `done`: the share of the measurement that is over, 0 to 1. Looks if a look is due and there is no verdict
  // yet.
  void look(double done);
  bool decided() const { return result_.verdict != SpeedVerdict::unknown; }
  const Comparison& result() const { return result_; }
  std::span<const Round> rounds() const { return rounds_; }

private:
  double error_, margin_;
  size_t next_look_ = 0;
  double spent_ = 0; // of the error, as a share
  std::vector<Round> rounds_;
  Comparison result_;
};

} // namespace pumice::command
