#include "media/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace pumice {

namespace {

constexpr uint64_t zero_crossings = 48; // of the sinc, on each side
constexpr double cutoff = 0.945;        // of the lower rate's band
constexpr double kaiser_beta = 9;
constexpr uint64_t max_phases = 1024; // results between two phases are interpolated
constexpr size_t lanes = 8;

double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > sum * 1e-17; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

// Low-pass filters, one for each of `phases` positions between two samples and one for the next sample.
struct Filters {
  uint64_t phases = 1;
  size_t half = 0;           // samples on each side of a position
  size_t taps = 0;           // 2 * half, rounded up to whole lanes
  std::vector<float> values; // [phases + 1, taps]

  Filters(uint64_t wanted_phases, double band) : phases(std::min(wanted_phases, max_phases)) {
    half = static_cast<size_t>(std::ceil(zero_crossings / band));
    taps = (2 * half + lanes - 1) / lanes * lanes;
    values.resize((phases + 1) * taps);
    std::vector<double> row(2 * half);
    for (uint64_t phase = 0; phase <= phases; ++phase) {
      for (size_t tap = 0; tap < row.size(); ++tap) {
        const double distance = static_cast<double>(tap) + 1 - static_cast<double>(half) -
                                static_cast<double>(phase) / static_cast<double>(phases);
        const double from_edge = 1 - std::pow(distance / static_cast<double>(half), 2);
        const double angle = std::numbers::pi * distance * band;
        row[tap] = from_edge <= 0 ? 0
                                  : (angle == 0 ? 1 : std::sin(angle) / angle) *
                                        bessel_i0(kaiser_beta * std::sqrt(from_edge));
      }
      const double sum = std::accumulate(row.begin(), row.end(), 0.0); // 1 for a constant signal
      for (size_t tap = 0; tap < row.size(); ++tap)
        values[phase * taps + tap] = static_cast<float>(row[tap] / sum);
    }
  }

  // Applies the filter of a phase to the samples from `x` on. It sums in lanes, so that the compiler can use
  // vectors.
  float apply(uint64_t phase, const float* x) const {
    const float* weights = values.data() + phase * taps;
    float sums[lanes] = {};
    for (size_t tap = 0; tap < taps; tap += lanes)
      for (size_t lane = 0; lane < lanes; ++lane) sums[lane] += weights[tap + lane] * x[tap + lane];
    return std::accumulate(sums, sums + lanes, 0.0F);
  }
};

} // namespace

std::vector<float> resample(std::span<const float> samples, uint32_t from, uint32_t to) {
  if (from == to || samples.empty()) return {samples.begin(), samples.end()};
  const uint64_t divisor = std::gcd(from, to), up = to / divisor, down = from / divisor;
  const Filters filters(up, cutoff * std::min(1.0, static_cast<double>(to) / from));
  std::vector<float> padded(samples.size() + filters.taps + filters.half);
  std::ranges::copy(samples, padded.begin() + static_cast<std::ptrdiff_t>(filters.half - 1));

  std::vector<float> result((samples.size() * up + down - 1) / down);
  for (size_t i = 0; i < result.size(); ++i) {
    const uint64_t position = i * down; // in units of 1 / up samples
    const float* x = padded.data() + position / up;
    const uint64_t scaled = position % up * filters.phases;
    const auto beyond = static_cast<float>(scaled % up) / static_cast<float>(up);
    result[i] = filters.apply(scaled / up, x);
    if (beyond > 0) result[i] += beyond * (filters.apply(scaled / up + 1, x) - result[i]);
  }
  return result;
}

} // namespace pumice
