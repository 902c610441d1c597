#pragma once

#include <cstddef>
#include <span>

// What is said of samples of time.
namespace pumice::command {

double mean(std::span<const double> values);
double deviation(std::span<const double> values); // the sample's standard deviation; 0 of fewer than two
// The value that a share of them (0 to 1) is not above, between two of them where it falls there. Of at least
// one value.
double quantile(std::span<const double> values, double share);
inline double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

// Whether runs that warm up have come to rest: the first one, which compiles, left aside, the median of the
// last three differs little from the median of the three that end one run earlier (of fewer, early on).
bool is_stable(std::span<const double> seconds);
inline constexpr double stable_change = 0.025;

enum class Verdict { same, faster, slower, too_few_samples };
const char* to_string(Verdict verdict);

// How fast B is, as a multiple of A's speed.
struct SpeedRatio {
  double ratio = 1; // Hodges and Lehmann's estimate: the median of all quotients of a sample of A by one of B
  double low = 0, high = 0; // its interval of confidence; 0 and 0 of too few samples
  Verdict verdict = Verdict::same;
};

// How far apart the medians of a run's first half and its second half are, as a share of the first one.
double drift(std::span<const double> seconds);

// Samples are seconds, in the order they were taken. The interval is the one that belongs to Mann and
// Whitney's test, which takes nothing for granted about how times are distributed; it is exact where there
// are no ties. A difference is one if the interval leaves out 1 and the estimate differs from 1 by more than
// `threshold` and by more than either run has drifted: two processes that do the same are a little apart,
// however often each measures, and a machine that changes while it measures says nothing finer than that.
SpeedRatio compare_speed(std::span<const double> a_seconds, std::span<const double> b_seconds,
                         double threshold);
inline constexpr double confidence = 0.99;
inline constexpr size_t samples_needed = 5; // of each, for that confidence

} // namespace pumice::command
