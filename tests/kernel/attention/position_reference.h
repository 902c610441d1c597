#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernel/cache_layout.h"
#include "kernel/position/position.h"

// Rotates the first dimensions of one head (Su et al. 2021), in 64 bits.
inline std::vector<double> rotary_reference(std::span<const double> head, pumice::RotaryPairs pairs,
                                            std::span<const double> frequencies, uint32_t position,
                                            double magnitude = 1) {
  std::vector<double> out(head.begin(), head.end());
  if (pairs == pumice::RotaryPairs::none) return out;
  const size_t half = frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const bool split = pairs == pumice::RotaryPairs::half_split;
    size_t a = split ? i : 2 * i, b = split ? i + half : 2 * i + 1;
    if (pairs == pumice::RotaryPairs::quarters) {
      a = (i < half / 2 ? half : 0) + i % (half / 2);
      b = a + half / 2;
    }
    const double c = magnitude * std::cos(position * frequencies[i]);
    const double s = magnitude * std::sin(position * frequencies[i]);
    out[a] = head[a] * c - head[b] * s;
    out[b] = head[b] * c + head[a] * s;
  }
  return out;
}

// What a query at this position is multiplied by.
inline double query_growth_reference(double growth, uint32_t length, uint32_t position) {
  return growth == 0 ? 1 : 1 + growth * std::log(1 + position / length);
}

// One head divided by its root mean square, times its weights (Zhang and Sennrich 2019); no weights: as it
// is.
inline std::vector<double> head_norm_reference(std::vector<double> head, std::span<const float> weights,
                                               double eps, double offset) {
  if (weights.empty()) return head;
  double squares = 0;
  for (double a : head) squares += a * a;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(head.size()) + eps);
  for (size_t d = 0; d < head.size(); ++d) head[d] *= scale * (weights[d] + offset);
  return head;
}
