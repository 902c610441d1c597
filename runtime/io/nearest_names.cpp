#include "io/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pumice {
namespace {

// The number of insertions, removals, replacements and swaps of two neighbours from one to the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j + 1] + 1, row[j] + 1, last[j] + (a[i] != b[j])});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last.back();
}

} // namespace

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> names) {
  // The work is quadratic in the length, and the names come from an untrusted file.
  constexpr size_t max_length = 256, max_compared = 4096;
  if (name.size() > max_length) return {};
  const size_t limit = name.size() / 3;
  std::vector<std::pair<size_t, std::string_view>> close;
  for (const std::string_view other : names.first(std::min(names.size(), max_compared))) {
    const size_t difference =
        other.size() > name.size() ? other.size() - name.size() : name.size() - other.size();
    if (other.size() > max_length || difference > limit) continue;
    if (const size_t distance = edit_distance(name, other); distance <= limit)
      close.emplace_back(distance, other);
  }
  std::ranges::sort(close);
  std::vector<std::string_view> best;
  for (size_t i = 0; i < close.size() && i < 3; ++i) best.push_back(close[i].second);
  return best;
}

} // namespace pumice
