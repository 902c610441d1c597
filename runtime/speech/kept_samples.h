#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// The samples of a sound that are still wanted, of all that were read so far.
class KeptSamples {
public:
  void append(std::span<const float> samples) {
    samples_.insert(samples_.end(), samples.begin(), samples.end());
  }
  // What lies before a sample is not wanted any more.
  void forget(uint64_t before) {
    const auto count = place_of(before);
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(count));
    first_ += count;
  }
  // Those from `at` on, at most `count`: fewer only where no more were read. Valid until the next change.
  std::span<const float> from(uint64_t at, size_t count) const {
    const std::span<const float> rest = std::span(samples_).subspan(place_of(at));
    return rest.first(std::min(count, rest.size()));
  }
  uint64_t first() const { return first_; }                 // the first that is kept
  uint64_t end() const { return first_ + samples_.size(); } // how many were read

private:
  size_t place_of(uint64_t at) const {
    return static_cast<size_t>(std::min<uint64_t>(at - std::min(at, first_), samples_.size()));
  }

  std::vector<float> samples_;
  uint64_t first_ = 0;
};

} // namespace pumice
