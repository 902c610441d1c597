#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "kernel/audio/log_mel.h"

// The log-mel features of one input [mels, frames] (Radford et al. 2022), in 64 bits and straight from the
// definitions.
inline std::vector<double> log_mel_reference(std::span<const float> samples,
                                             const pumice::LogMelShape& shape) {
  const int64_t size = shape.n_fft, count = shape.samples;
  const uint32_t frames = shape.frames(), bins = shape.bins();
  const std::vector<double> filters = pumice::mel_filters(shape);
  std::vector<double> logs(size_t{shape.mels} * frames), power(bins);
  for (uint32_t frame = 0; frame < frames; ++frame) {
    for (uint32_t bin = 0; bin < bins; ++bin) {
      double real = 0, imaginary = 0;
      for (int64_t n = 0; n < size; ++n) {
        int64_t at = int64_t{frame} * shape.hop + n - size / 2;
        if (at < 0) at = -at;
        if (at >= count) at = 2 * (count - 1) - at;
        const double turn = 2 * std::numbers::pi / static_cast<double>(size);
        const double window = 0.5 - 0.5 * std::cos(turn * static_cast<double>(n));
        const double angle = turn * static_cast<double>(n * bin % size);
        real += samples[static_cast<size_t>(at)] * window * std::cos(angle);
        imaginary -= samples[static_cast<size_t>(at)] * window * std::sin(angle);
      }
      power[bin] = real * real + imaginary * imaginary;
    }
    for (uint32_t mel = 0; mel < shape.mels; ++mel) {
      double energy = 0;
      for (uint32_t bin = 0; bin < bins; ++bin) energy += filters[size_t{mel} * bins + bin] * power[bin];
      logs[size_t{mel} * frames + frame] = std::log10(std::max(energy, 1e-10));
    }
  }
  const double least = *std::max_element(logs.begin(), logs.end()) - 8;
  for (double& v : logs) v = (std::max(v, least) + 4) / 4;
  return logs;
}
