#include "speech/host_log_mel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pumice {

namespace {

// Energies of a frame's frequencies. The terms of a real transform lie even or odd around the frame's middle,
// so that half of them are enough.
class Frequencies {
public:
  explicit Frequencies(const LogMelShape& shape)
      : size_(shape.n_fft), bins_(shape.bins()), frame_(size_), real_(bins_), imaginary_(bins_) {
    const double turn = 2 * std::numbers::pi / size_;
    for (uint32_t n = 0; n < size_; ++n) window_.push_back(0.5 - 0.5 * std::cos(turn * n));
    for (uint32_t n = 1; n < size_ / 2; ++n) {
      for (uint32_t bin = 0; bin < bins_; ++bin) {
        const double angle = turn * (uint64_t{n} * bin % size_);
        cosines_.push_back(std::cos(angle));
        sines_.push_back(std::sin(angle));
      }
    }
  }

  // Of the frame around a sample of a sound of `count` samples, which is reflected at both ends. Empty if all
  // of them are 0.
  std::span<const double> energies(std::span<const float> samples, int64_t middle, int64_t count) {
    bool silent = true;
    for (uint32_t n = 0; n < size_; ++n) {
      int64_t at = middle + n - size_ / 2;
      if (at < 0) at = -at;
      if (at >= count) at = 2 * (count - 1) - at;
      const float sample = static_cast<size_t>(at) < samples.size() ? samples[static_cast<size_t>(at)] : 0;
      silent &= sample == 0;
      frame_[n] = window_[n] * sample;
    }
    if (silent) return {};
    const uint32_t half = size_ / 2;
    for (uint32_t bin = 0; bin < bins_; ++bin) {
      real_[bin] = frame_[0] + (bin % 2 ? -frame_[half] : frame_[half]);
      imaginary_[bin] = 0;
    }
    for (uint32_t n = 1; n < half; ++n) {
      const double even = frame_[n] + frame_[size_ - n], odd = frame_[n] - frame_[size_ - n];
      const double *cosines = &cosines_[size_t{n - 1} * bins_], *sines = &sines_[size_t{n - 1} * bins_];
      for (uint32_t bin = 0; bin < bins_; ++bin) {
        real_[bin] += even * cosines[bin];
        imaginary_[bin] += odd * sines[bin];
      }
    }
    for (uint32_t bin = 0; bin < bins_; ++bin)
      real_[bin] = real_[bin] * real_[bin] + imaginary_[bin] * imaginary_[bin];
    return real_;
  }

private:
  const uint32_t size_, bins_;
  std::vector<double> window_, cosines_, sines_, frame_, real_, imaginary_;
};

} // namespace

std::vector<float> host_log_mel(std::span<const float> samples, const LogMelShape& shape) {
  constexpr double least_energy = 1e-10, range = 8;
  const std::vector<double> filters = mel_filters(shape);
  const size_t frames = shape.frames(), bins = shape.bins();
  Frequencies frequencies(shape);
  std::vector<double> logs(shape.mels * frames, std::log10(least_energy));
  for (size_t frame = 0; frame < frames; ++frame) {
    const std::span<const double> energies =
        frequencies.energies(samples, static_cast<int64_t>(frame * shape.hop), shape.samples);
    for (size_t mel = 0; mel < shape.mels && !energies.empty(); ++mel) {
      double energy = 0;
      for (size_t bin = 0; bin < bins; ++bin) energy += filters[mel * bins + bin] * energies[bin];
      logs[mel * frames + frame] = std::log10(std::max(energy, least_energy));
    }
  }
  const double least = *std::ranges::max_element(logs) - range;
  std::vector<float> features;
  features.reserve(logs.size());
  for (const double log : logs) features.push_back(static_cast<float>((std::max(log, least) + 4) / 4));
  return features;
}

} // namespace pumice
