#include "io/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pumice {
namespace {

// The Levenshtein distance: insertions, removals and replacements from one to the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
    }
  }
  return row.back();
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
