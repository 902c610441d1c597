#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pumice {

// Resamples sound with a windowed sinc filter: flat up to 88 % of the lower rate's band, and 90 dB of
// attenuation where it would alias. Silence is assumed before and after the sound. If the rates are equal,
// the samples are returned without changes. The rates must be above 0.
std::vector<float> resample(std::span<const float> samples, uint32_t from, uint32_t to);

// The same piece by piece, with the same bits.
class Resampler {
public:
  Resampler(uint32_t from, uint32_t to);
  ~Resampler();
  Resampler(Resampler&&) noexcept;
  Resampler& operator=(Resampler&&) noexcept;

  // Takes in the next samples, and appends those of the result that depend on no later ones.
  void push(std::span<const float> samples, std::vector<float>& to);
  // There are no more samples: appends the rest.
  void finish(std::vector<float>& to);

private:
  struct Filters;
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace pumice
