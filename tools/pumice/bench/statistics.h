#pragma once

#include <cstddef>
#include <span>

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

enum class Verdict { same, faster, slower, too_few_samples };
const char* to_string(Verdict verdict);

// The speed of B divided by the speed of A.
struct SpeedRatio {
  double ratio = 1;         // Hodges-Lehmann estimate: the median of all quotients of samples of A and B
  double low = 0, high = 0; // its confidence interval; 0 and 0 with too few samples
  Verdict verdict = Verdict::same;
};

// The relative difference between the median of the second half of the samples and that of the first half.
double drift(std::span<const double> seconds);

// Compares two runs. Samples are seconds, in the order in which they were taken. The interval is that of the
// Mann-Whitney test, which assumes nothing about the distribution of the times; it is exact if there are no
// ties. The verdict is "faster" or "slower" if the interval does not contain 1 and the ratio differs from 1
// by more than `threshold` and more than the drift of either run. The threshold is needed because two
// processes that do the same always differ a little; the drift, because a machine that changes while it
// measures hides small differences.
SpeedRatio compare_speed(std::span<const double> a_seconds, std::span<const double> b_seconds,
                         double threshold);
inline constexpr double confidence = 0.99;
inline constexpr size_t samples_needed = 5; // of each run, to reach that confidence

} // namespace pumice::command
