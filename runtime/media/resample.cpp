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

} // namespace

// Low-pass filters, one for each of `phases` positions between two samples and one for the next sample.
struct Resampler::Filters {
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

struct Resampler::State {
  State(uint32_t from, uint32_t to)
      : up(to / std::gcd(from, to)), down(from / std::gcd(from, to)),
        filters(up, cutoff * std::min(1.0, static_cast<double>(to) / from)) {
    kept.resize(filters.half - 1); // silence before the sound
  }

  uint64_t up, down;
  Filters filters;
  std::vector<float> kept; // samples that results still depend on
  uint64_t first = 0;      // of those, with the silence before the sound
  uint64_t taken = 0;      // samples of the sound so far
  uint64_t made = 0;       // results so far

  // Results up to `end` whose samples are there.
  void make(uint64_t end, std::vector<float>& to) {
    for (; made < end; ++made) {
      const uint64_t position = made * down; // in units of 1 / up samples
      const uint64_t at = position / up - first;
      if (at + filters.taps > kept.size()) break;
      const float* x = kept.data() + at;
      const uint64_t scaled = position % up * filters.phases;
      const auto beyond = static_cast<float>(scaled % up) / static_cast<float>(up);
      float result = filters.apply(scaled / up, x);
      if (beyond > 0) result += beyond * (filters.apply(scaled / up + 1, x) - result);
      to.push_back(result);
    }
    const uint64_t unused = std::min<uint64_t>(made * down / up - first, kept.size());
    kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(unused));
    first += unused;
  }
};

Resampler::Resampler(uint32_t from, uint32_t to)
    : state_(from == to ? nullptr : std::make_unique<State>(from, to)) {}
Resampler::~Resampler() = default;
Resampler::Resampler(Resampler&&) noexcept = default;
Resampler& Resampler::operator=(Resampler&&) noexcept = default;

void Resampler::push(std::span<const float> samples, std::vector<float>& to) {
  if (!state_) {
    to.insert(to.end(), samples.begin(), samples.end());
    return;
  }
  state_->kept.insert(state_->kept.end(), samples.begin(), samples.end());
  state_->taken += samples.size();
  state_->make(UINT64_MAX, to);
}

void Resampler::finish(std::vector<float>& to) {
  if (!state_) return;
  State& state = *state_;
  state.kept.resize(state.kept.size() + state.filters.taps + state.filters.half); // silence after it
  state.make((state.taken * state.up + state.down - 1) / state.down, to);
}

std::vector<float> resample(std::span<const float> samples, uint32_t from, uint32_t to) {
  std::vector<float> result;
  if (from != to) result.reserve(static_cast<size_t>(static_cast<double>(samples.size()) * to / from) + 1);
  Resampler resampler(from, to);
  resampler.push(samples, result);
  resampler.finish(result);
  return result;
}

} // namespace pumice
