#include "bench/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>

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

std::optional<Interval> median_interval(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  // The median is outside of the k-th values from both ends with the probability of fewer than k heads, or
  // tails, among so many coins.
  const auto count = static_cast<double>(sorted.size());
  double outside = 0;
  size_t k = 0;
  for (; k < sorted.size(); ++k) {
    const auto heads = static_cast<double>(k);
    outside += 2 * std::exp(std::lgamma(count + 1) - std::lgamma(heads + 1) - std::lgamma(count - heads + 1) -
                            count * std::numbers::ln2);
    if (outside > 0.05) break;
  }
  if (k == 0) return std::nullopt;
  return Interval{sorted[k - 1], sorted[sorted.size() - k]};
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

double spread(std::span<const double> seconds) {
  return (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / median(seconds);
}

std::string why_unstable(std::span<const double> seconds) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", share * 100); };
  if (const double apart = spread(seconds); apart > stable_spread) {
    return "its samples are spread over " + percent(apart) + " of their median";
  }
  if (const double change = drift(seconds); change > stable_drift) {
    return "the second half of its samples differs from the first by " + percent(change);
  }
  return "";
}

const char* to_string(SpeedVerdict verdict) {
  switch (verdict) {
  case SpeedVerdict::faster:
    return "faster";
  case SpeedVerdict::slower:
    return "slower";
  case SpeedVerdict::same:
    return "the same";
  case SpeedVerdict::unknown:
    return "cannot tell";
  }
  return "unknown";
}

namespace {

// The probability of each sum of signed ranks of `n` values from a symmetric distribution: every subset of
// the ranks 1 to n is equally likely.
std::vector<double> signed_rank_distribution(size_t n) {
  std::vector<double> probability = {1.0};
  for (size_t rank = 1; rank <= n; ++rank) {
    std::vector<double> next(probability.size() + rank, 0.0);
    for (size_t sum = 0; sum < probability.size(); ++sum) {
      next[sum] += probability[sum] / 2;
      next[sum + rank] += probability[sum] / 2;
    }
    probability = std::move(next);
  }
  return probability;
}

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

// How many values at the beginning of a distribution have at most the probability `tail` together.
size_t values_in_tail(const std::vector<double>& probability, double tail) {
  double sum = 0;
  size_t count = 0;
  while (count < probability.size() && (sum += probability[count]) <= tail) ++count;
  return count;
}

// The same for a distribution over 0 to `most` that is close to a normal one with this variance.
size_t values_in_normal_tail(double most, double variance, double tail) {
  double low = 0, high = 40; // the quantile, by bisection
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::numbers::sqrt2) / 2 > tail ? low : high) = middle;
  }
  return static_cast<size_t>(std::max(0.0, std::floor(most / 2 - high * std::sqrt(variance))));
}

size_t signed_rank_tail(size_t n, double tail) {
  constexpr size_t most_exact = 200;
  if (n <= most_exact) return values_in_tail(signed_rank_distribution(n), tail);
  const auto count = static_cast<double>(n);
  return values_in_normal_tail(count * (count + 1) / 2, count * (count + 1) * (2 * count + 1) / 24, tail);
}

size_t u_tail(size_t a, size_t b, double tail) {
  constexpr size_t most_exact = 2500;
  if (a * b <= most_exact) return values_in_tail(u_distribution(a, b), tail);
  const auto pairs = static_cast<double>(a * b);
  return values_in_normal_tail(pairs, pairs * static_cast<double>(a + b + 1) / 12, tail);
}

// The smallest number of values of which `tail_of` leaves something outside the interval.
template <class TailOf>
size_t least_count(TailOf tail_of, double error) {
  size_t count = 1;
  while (tail_of(count, error / 2) == 0) ++count;
  return count;
}

SpeedVerdict verdict_of(Interval interval, double margin) {
  if (interval.low >= 1 / (1 + margin) && interval.high <= 1 + margin) return SpeedVerdict::same;
  if (interval.low > 1) return SpeedVerdict::faster;
  if (interval.high < 1) return SpeedVerdict::slower;
  return SpeedVerdict::unknown;
}

// How many more values of each side would probably give a verdict. Intervals shrink with the root of the
// number of values. One is narrow enough when it reaches from the ratio to 1, or to the margin.
size_t more_needed(const Comparison& comparison, size_t count, double margin) {
  const double from_one = std::abs(std::log(comparison.ratio));
  const double enough = std::max(from_one, std::log1p(margin) - from_one);
  const double width = std::log(comparison.interval->high / comparison.interval->low) / 2;
  const double times = std::pow(width / enough, 2);
  constexpr double most = 1e6; // with a margin of nothing no number is enough
  const double needed = std::min(std::ceil(static_cast<double>(count) * times), most);
  return static_cast<size_t>(std::max(1.0, needed - static_cast<double>(count)));
}

// Whether sorted logarithms of ratios are all so far on one side of 0 that neither a process nor a machine
// explains it: by more than a factor of two, and by more than three times what they are apart.
bool far_from_one(std::span<const double> ratios) {
  const double nearest = std::max(ratios.front(), -ratios.back());
  return nearest > std::max(std::numbers::ln2, 3 * (ratios.back() - ratios.front()));
}

// `ratios`: the logarithms of the ratios of `count` values that the test orders, of which `outside` at each
// end are not in the interval.
Comparison from_ratios(std::vector<double> ratios, size_t count, size_t outside, double margin) {
  std::ranges::sort(ratios);
  Comparison result;
  result.ratio = std::exp(median(ratios));
  constexpr size_t least_far = 3;
  if (outside == 0) {
    if (count >= least_far && far_from_one(ratios))
      result.verdict = result.ratio > 1 ? SpeedVerdict::faster : SpeedVerdict::slower;
    return result;
  }
  result.interval = Interval{std::exp(ratios[outside - 1]), std::exp(ratios[ratios.size() - outside])};
  result.verdict = verdict_of(*result.interval, margin);
  return result;
}

// By how much the logarithm of a time grows with the disturbance: the line through 0 that has the least
// absolute distance from the rounds. Swapping A and B in a round changes both signs, and so nothing.
double disturbance_effect(std::span<const Round> rounds) {
  constexpr size_t least_rounds = 8; // of fewer, it would explain what is luck
  if (rounds.size() < least_rounds) return 0;
  constexpr double most = 5; // the processors of a machine are never disturbed so much that more makes sense
  std::vector<std::pair<double, double>> slopes; // with their weights
  double all = 0;
  for (const Round& round : rounds) {
    const double difference = round.a_disturbed - round.b_disturbed;
    if (difference == 0) continue;
    slopes.emplace_back(std::log(round.a_seconds / round.b_seconds) / difference, std::abs(difference));
    all += std::abs(difference);
  }
  std::ranges::sort(slopes);
  double below = 0;
  for (const auto& [slope, weight] : slopes) {
    if ((below += weight) >= all / 2) return std::clamp(slope, 0.0, most);
  }
  return 0;
}

// The standard deviation that normal values with this median distance from `middle` would have.
double robust_deviation(std::span<const double> values, double middle) {
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - middle));
  constexpr double deviation_over_median = 1.4826;
  return deviation_over_median * median(distances);
}

} // namespace

Round alternated_round(std::span<const double> a_seconds, std::span<const double> b_seconds) {
  std::vector<double> logarithms;
  for (size_t i = 0; i < std::min(a_seconds.size(), b_seconds.size()); ++i) {
    logarithms.push_back(std::log(a_seconds[i] / b_seconds[i]));
  }
  const double middle = median(logarithms);
  constexpr double median_over_mean = 1.2533; // of normal values: how much more the median is off
  const double error = median_over_mean * robust_deviation(logarithms, middle) /
                       std::sqrt(static_cast<double>(logarithms.size()));
  return {mean(a_seconds), mean(b_seconds), 0, 0, std::exp(middle), error};
}

bool has_spare_pairs(std::span<const Round> rounds) {
  std::vector<double> logarithms, errors;
  for (const Round& round : rounds) {
    if (!round.quotient) return false;
    logarithms.push_back(std::log(*round.quotient));
    errors.push_back(round.pair_error);
  }
  constexpr size_t least_rounds = 6;
  if (rounds.size() < least_rounds) return false;
  constexpr double enough = 2; // all of the deviation, over that within processes: four times the variance
  // From 0, not from their median, which swaps would change.
  return robust_deviation(logarithms, 0) > enough * median(errors);
}

Comparison compare_rounds(std::span<const Round> rounds, double error, double margin) {
  const size_t n = rounds.size();
  const auto tail_of = [](size_t count, double tail) { return signed_rank_tail(count, tail); };
  if (n == 0) return {1, {}, SpeedVerdict::unknown, least_count(tail_of, error)};
  const double effect = disturbance_effect(rounds);
  std::vector<double> logarithms, averages; // of pairs of rounds, each also with itself
  for (const Round& round : rounds) {
    logarithms.push_back(std::log(round.quotient.value_or(round.a_seconds / round.b_seconds)) -
                         effect * (round.a_disturbed - round.b_disturbed));
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) averages.push_back((logarithms[i] + logarithms[j]) / 2);
  }
  Comparison result = from_ratios(std::move(averages), n, signed_rank_tail(n, error / 2), margin);
  if (result.verdict != SpeedVerdict::unknown) return result;
  result.more = result.interval ? more_needed(result, n, margin) : least_count(tail_of, error) - n;
  return result;
}

Comparison compare_processes(std::span<const double> a_seconds, std::span<const double> b_seconds,
                             double error, double margin) {
  const auto tail_of = [](size_t count, double tail) { return u_tail(count, count, tail); };
  const size_t n = std::min(a_seconds.size(), b_seconds.size());
  if (n == 0) return {1, {}, SpeedVerdict::unknown, least_count(tail_of, error)};
  std::vector<double> quotients;
  for (double a : a_seconds) {
    for (double b : b_seconds) quotients.push_back(std::log(a / b));
  }
  const size_t outside = u_tail(a_seconds.size(), b_seconds.size(), error / 2);
  Comparison result = from_ratios(std::move(quotients), n, outside, margin);
  if (!result.interval) {
    if (result.verdict == SpeedVerdict::unknown)
      result.more = std::max<size_t>(1, least_count(tail_of, error) - n);
    return result;
  }
  const double drifts = std::max(drift(a_seconds), drift(b_seconds));
  const bool differs = result.verdict == SpeedVerdict::faster || result.verdict == SpeedVerdict::slower;
  if (differs && std::abs(std::log(result.ratio)) <= std::log1p(drifts))
    result.verdict = SpeedVerdict::unknown;
  if (result.verdict == SpeedVerdict::unknown) result.more = more_needed(result, n, margin);
  return result;
}

void GrowingComparison::look(double done) {
  constexpr std::array looks = {0.125, 0.25, 0.5, 0.75, 1.0};
  if (decided() || next_look_ == looks.size() || done < looks[next_look_]) return;
  while (next_look_ < looks.size() && done >= looks[next_look_]) ++next_look_;
  const double by_now = std::pow(looks[next_look_ - 1], 2);
  result_ = compare_rounds(rounds_, error_ * (by_now - spent_), margin_);
  if (result_.interval) spent_ = by_now; // without an interval there was nothing to get wrong
}

} // namespace pumice::command
