#include "step/drafts/draft_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pumice {

namespace {

constexpr double mean_memory = 0.98; // of a mean, with each step: about the last 50 count
constexpr double least_gain = 1.05;
constexpr double untried = 1.25; // the most of a size that was not measured, in steps without guesses

} // namespace

void DraftCosts::Mean::add(double more) {
  seconds = seconds * mean_memory + more;
  steps = steps * mean_memory + 1;
}

void DraftCosts::took(uint32_t rows, double seconds) {
  rows = std::bit_ceil(rows);
  if (!ran_.insert(rows).second) composed_[rows].add(seconds);
}

void DraftCosts::took_repeated(double seconds) {
  repeated_.add(seconds);
}

// What was not measured is taken to be cheap, so that it is tried; a step of more rows takes no less.
double DraftCosts::seconds(uint32_t rows) const {
  rows = std::bit_ceil(rows);
  if (const auto found = composed_.find(rows); found != composed_.end()) return found->second.value();
  const auto guess = guesses_.lower_bound(rows);
  if (guess == guesses_.end()) return 1e30;
  if (!repeated_.known()) return guess->second;
  const double ratio = guess->second / guesses_.begin()->second;
  double seconds = repeated_.value() * std::min(ratio, untried);
  for (const auto& [measured, mean] : composed_) {
    seconds = measured < rows ? std::max(seconds, mean.value()) : std::min(seconds, mean.value());
  }
  return seconds;
}

double DraftCosts::expected(double guess) const {
  if (!repeated_.known() || guesses_.empty()) return guess;
  return guess * repeated_.value() / guesses_.begin()->second;
}

uint32_t DraftCosts::count(std::span<const double> chances, uint32_t most, double each,
                           uint32_t others) const {
  const auto texts = static_cast<uint32_t>(chances.size());
  const bool repeats = repeated_.known() && others == 0;
  const double plain = texts / (repeats ? repeated_.value() : seconds(texts + others));
  double best = plain * least_gain;
  uint32_t count = 0;
  for (uint32_t rows = 2; most > 0; rows *= 2) {
    const uint32_t drafts = std::min(rows - 1, most);
    double tokens = 0;
    uint32_t all = texts + others;
    for (const double chance : chances) {
      // 1 + p + p^2 + ... : the first guess that does not hold ends the row of them.
      tokens += chance >= 1 ? drafts + 1 : (1 - std::pow(chance, drafts + 1)) / (1 - chance);
      if (chance > 0) all += drafts;
    }
    if (const double rate = tokens / (seconds(all) + drafts * each); rate > best) {
      best = rate;
      count = drafts;
    }
    if (drafts == most) break;
  }
  return count;
}

} // namespace pumice
