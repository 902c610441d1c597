#include "tools/pumice/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace pumice::command {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double quantile(std::span<const double> values, double share) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

bool is_stable(std::span<const double> seconds) {
  constexpr size_t window = 3;
  if (seconds.size() < 3) return false;
  const std::span<const double> warm = seconds.subspan(1);
  const auto median_until = [&](size_t end) {
    const size_t count = std::min(window, end);
    return median(warm.subspan(end - count, count));
  };
  const double now = median_until(warm.size()), before = median_until(warm.size() - 1);
  return std::abs(now - before) <= stable_change * before;
}

double drift(std::span<const double> seconds) {
  const size_t half = (seconds.size() + 1) / 2;
  return std::abs(median(seconds.last(half)) / median(seconds.first(half)) - 1);
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
  case Verdict::same:
    return "no difference";
  case Verdict::faster:
    return "faster";
  case Verdict::slower:
    return "slower";
  case Verdict::too_few_samples:
    return "too few samples";
  }
  return "unknown";
}

namespace {

// The probability of each value of U, from 0 to a * b, for `a` samples of A and `b` samples of B from one
// distribution. U counts the pairs in which the sample of A is larger. The recursion removes the largest
// sample. It is from A with the probability a / (a + b), and then it is larger than all samples of B.
std::vector<double> u_distribution(size_t a, size_t b) {
  std::vector<std::vector<double>> row(b + 1, std::vector<double>(1, 1.0)); // [samples of B][U]; here a = 0
  for (size_t i = 1; i <= a; ++i) {
    std::vector<std::vector<double>> next(b + 1);
    next[0] = {1.0};
    for (size_t j = 1; j <= b; ++j) {
      next[j].assign(i * j + 1, 0);
      const double of_a = static_cast<double>(i) / static_cast<double>(i + j);
      for (size_t u = 0; u < row[j].size(); ++u) next[j][u + j] += of_a * row[j][u];
      for (size_t u = 0; u < next[j - 1].size(); ++u) next[j][u] += (1 - of_a) * next[j - 1][u];
    }
    row = std::move(next);
  }
  return row[b];
}

// The number of sorted quotients outside the interval, at each end. 0: there are too few samples for an
// interval of this confidence.
size_t outside(size_t a, size_t b) {
  constexpr double tail = (1 - confidence) / 2;
  constexpr size_t most_exact = 2500;
  if (a * b > most_exact) {
    const auto pairs = static_cast<double>(a * b);
    const double spread = std::sqrt(pairs * static_cast<double>(a + b + 1) / 12);
    constexpr double normal_quantile = 2.5758293; // of 1 - tail
    return static_cast<size_t>(std::max(0.0, std::floor(pairs / 2 - normal_quantile * spread)));
  }
  const std::vector<double> probability = u_distribution(a, b);
  double sum = 0;
  size_t count = 0;
  while (count < probability.size() && (sum += probability[count]) <= tail) ++count;
  return count;
}

} // namespace

SpeedRatio compare_speed(std::span<const double> a_seconds, std::span<const double> b_seconds,
                         double threshold) {
  std::vector<double> quotients;
  for (double a : a_seconds) {
    for (double b : b_seconds) quotients.push_back(a / b);
  }
  SpeedRatio result;
  if (quotients.empty()) {
    result.verdict = Verdict::too_few_samples;
    return result;
  }
  std::ranges::sort(quotients);
  result.ratio = median(quotients);
  const size_t cut = outside(a_seconds.size(), b_seconds.size());
  if (cut == 0) {
    result.verdict = Verdict::too_few_samples;
    return result;
  }
  result.low = quotients[cut - 1];
  result.high = quotients[quotients.size() - cut];
  const double least = std::max({threshold, drift(a_seconds), drift(b_seconds)});
  if (result.low > 1 && result.ratio > 1 + least) result.verdict = Verdict::faster;
  if (result.high < 1 && result.ratio * (1 + least) < 1) result.verdict = Verdict::slower;
  return result;
}

} // namespace pumice::command
