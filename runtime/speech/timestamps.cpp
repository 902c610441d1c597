#include "speech/timestamps.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "generate/logit_rules.h"

namespace pumice {

namespace {

// Of the tokens from `first` to before `end`.
void forbid(std::span<float> scores, size_t first, size_t end) {
  end = std::min(end, scores.size());
  if (first < end) std::ranges::fill(scores.subspan(first, end - first), forbidden_score);
}

// log(sum(exp(scores))).
double log_sum(std::span<const float> scores) {
  const float largest = scores.empty() ? forbidden_score : *std::ranges::max_element(scores);
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (float score : scores) sum += std::exp(double{score} - largest);
  return largest + std::log(sum);
}

} // namespace

void TimestampRule::apply(std::span<float> scores, std::span<const uint32_t> text) const {
  const auto is_time = [&](uint32_t token) { return token >= first; };
  forbid(scores, no_timestamps, size_t{no_timestamps} + 1);
  forbid(scores, size_t{last} + 1, scores.size());
  if (text.empty()) {
    forbid(scores, 0, first);
    forbid(scores, size_t{latest_start} + 1, scores.size());
    return;
  }
  // After the timestamp that ends a piece of text comes the timestamp that begins the next one, or nothing.
  const bool after_time = is_time(text.back());
  const bool after_pair = after_time && (text.size() < 2 || is_time(text[text.size() - 2]));
  if (after_pair) {
    forbid(scores, first, scores.size());
  } else if (after_time) {
    forbid(scores, 0, end);
    forbid(scores, size_t{end} + 1, first);
  }
  // Timestamps never decrease, and a piece of text ends later than it begins.
  const auto latest = std::find_if(text.rbegin(), text.rend(), is_time);
  if (latest != text.rend()) forbid(scores, first, size_t{*latest} + (after_time && !after_pair ? 0 : 1));

  const std::span<const float> others = scores.first(std::min<size_t>(first, scores.size()));
  const float likeliest = others.empty() ? forbidden_score : *std::ranges::max_element(others);
  if (log_sum(scores.subspan(others.size())) > likeliest) forbid(scores, 0, first);
}

TimedPieces cut_at_timestamps(std::span<const uint32_t> tokens, uint32_t first_timestamp, uint32_t length) {
  const auto time = [&](uint32_t token) -> std::optional<uint32_t> {
    if (token < first_timestamp) return std::nullopt;
    return std::min(token - first_timestamp, length);
  };
  TimedPieces cut;
  size_t done = 0;
  const auto add = [&](size_t end, uint32_t last) {
    const std::span<const uint32_t> own = tokens.subspan(done, end - done);
    const uint32_t start = time(own.front()).value_or(0);
    cut.pieces.push_back({start, std::max(start, last), {own.begin(), own.end()}});
    done = end;
  };
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (time(tokens[i]) && time(tokens[i - 1])) add(i, *time(tokens[i - 1]));
  }
  // A single timestamp at the end means that there is no speech after it.
  const size_t count = tokens.size();
  const bool ends_alone = count > 1 && time(tokens[count - 1]) && !time(tokens[count - 2]);
  cut.next = length;
  if (done > 0 && !ends_alone) {
    cut.next = *time(tokens[done - 1]); // the text after it is cut off by the end of the window
  } else if (ends_alone && *time(tokens.back()) > 0) {
    add(count, *time(tokens.back()));
  } else if (done < count) {
    add(count, length);
  }
  if (cut.next == 0) cut.next = length;
  return cut;
}

} // namespace pumice
