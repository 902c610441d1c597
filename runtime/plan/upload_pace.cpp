#include "plan/upload_pace.h"

#include <algorithm>

namespace pumice {

namespace {

// Of the budget, for what is expected: uploads of the same size do not all take the same.
constexpr double upload_margin = 0.85;

} // namespace

UploadPace::UploadPace(const UploadBudget& budget, uint64_t least, uint64_t most)
    : budget_(budget.seconds), most_(budget.bytes ? std::min(budget.bytes, most) : most) {
  least_ = std::min(least, most_);
  bytes_ = timed() ? least_ : most_;
}

// A longer time counts at once. Shorter ones at most double what follows: one of them may be luck.
void UploadPace::took(uint64_t bytes, double seconds) {
  if (!timed() || bytes == 0) return;
  double fits = 2.0 * static_cast<double>(bytes_);
  if (seconds > 0) fits = std::min(fits, static_cast<double>(bytes) * upload_margin * budget_ / seconds);
  bytes_ = static_cast<uint64_t>(std::clamp(fits, double(least_), double(most_)));
}

} // namespace pumice
