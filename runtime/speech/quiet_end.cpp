#include "speech/quiet_end.h"

#include <algorithm>
#include <limits>

namespace pumice {

size_t quiet_end(std::span<const float> samples, uint32_t sample_rate) {
  const size_t piece = std::max<size_t>(sample_rate / 50, 1);
  size_t end = samples.size();
  double quietest = std::numeric_limits<double>::infinity();
  for (size_t from = samples.size() / 4 * 3; from + piece <= samples.size(); from += piece) {
    double energy = 0;
    for (const float sample : samples.subspan(from, piece)) energy += double{sample} * sample;
    if (energy > quietest) continue;
    quietest = energy;
    end = from + piece / 2;
  }
  return end;
}

} // namespace pumice
