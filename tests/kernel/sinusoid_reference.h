#pragma once

#include <cmath>
#include <vector>

#include "kernel/position/sinusoid.h"

// The sinusoidal encoding of a position (Vaswani et al. 2017), in 64 bits.
inline std::vector<double> sinusoid_reference(uint32_t position, uint32_t columns,
                                              pumice::SinusoidLayout layout) {
  std::vector<double> sines, cosines, out;
  for (uint32_t i = 0; 2 * i < columns; ++i) {
    const double angle = position / std::pow(10000.0, 2.0 * i / columns);
    sines.push_back(std::sin(angle));
    if (2 * i + 1 < columns) cosines.push_back(std::cos(angle));
  }
  if (layout == pumice::SinusoidLayout::halves) {
    out = sines;
    out.insert(out.end(), cosines.begin(), cosines.end());
  } else {
    for (uint32_t i = 0; i < columns; ++i) out.push_back(i % 2 == 0 ? sines[i / 2] : cosines[i / 2]);
  }
  return out;
}
