#pragma once

#include <cmath>
#include <vector>

#include "kernel/position/sinusoid.h"

// The sinusoidal encoding of a position (Vaswani et al. 2017), in 64 bits. With the closed spacing, the last
// frequency is 1 / 10000.
inline std::vector<double> sinusoid_reference(uint32_t position, uint32_t columns,
                                              const pumice::Sinusoids& sinusoids) {
  const double divisor = sinusoids.spacing == pumice::SinusoidSpacing::closed ? columns - 2 : columns;
  std::vector<double> sines, cosines, out;
  for (uint32_t i = 0; 2 * i < columns; ++i) {
    const double angle = (sinusoids.first + double{1} * position) / std::pow(10000.0, 2.0 * i / divisor);
    sines.push_back(std::sin(angle));
    if (2 * i + 1 < columns) cosines.push_back(std::cos(angle));
  }
  if (sinusoids.layout == pumice::SinusoidLayout::halves) {
    out = sines;
    out.insert(out.end(), cosines.begin(), cosines.end());
  } else {
    for (uint32_t i = 0; i < columns; ++i) out.push_back(i % 2 == 0 ? sines[i / 2] : cosines[i / 2]);
  }
  return out;
}
