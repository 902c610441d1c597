#include "speech/host_log_mel.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace pumice {

namespace {

constexpr double least_energy = 1e-10, range = 8;

float feature(double log) {
  return static_cast<float>((log + 4) / 4);
}

} // namespace

// The energies of a frame's frequencies, and of its bands. The terms of a real transform lie even or odd
// around the frame's middle, so that half of them are enough.
class HostLogMel::Spectrum {
public:
  explicit Spectrum(const LogMelShape& shape)
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
    const std::vector<double> filters = mel_filters(shape);
    for (uint32_t mel = 0; mel < shape.mels; ++mel) {
      const std::span<const double> row = std::span(filters).subspan(size_t{mel} * bins_, bins_);
      Band& band = bands_.emplace_back();
      while (band.first < bins_ && row[band.first] == 0) ++band.first;
      uint32_t end = bins_;
      while (end > band.first && row[end - 1] == 0) --end;
      band.weights.assign(row.begin() + band.first, row.begin() + end);
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

  double of_band(std::span<const double> energies, size_t mel) const {
    const Band& band = bands_[mel];
    double energy = 0;
    for (size_t i = 0; i < band.weights.size(); ++i) energy += band.weights[i] * energies[band.first + i];
    return energy;
  }

private:
  struct Band { // the frequencies that count for it
    uint32_t first = 0;
    std::vector<double> weights;
  };

  const uint32_t size_, bins_;
  std::vector<double> window_, cosines_, sines_, frame_, real_, imaginary_;
  std::vector<Band> bands_;
};

HostLogMel::HostLogMel(std::vector<float> samples, const LogMelShape& window, size_t windows)
    : samples_(std::move(samples)), window_(window), windows_(windows), loudest_(std::log10(least_energy)),
      spectrum_(std::make_unique<Spectrum>(window)) {}
HostLogMel::HostLogMel(HostLogMel&&) noexcept = default;
HostLogMel& HostLogMel::operator=(HostLogMel&&) noexcept = default;
HostLogMel::~HostLogMel() = default;

bool HostLogMel::advance() {
  const size_t frames = window_.frames();
  if (frame_ == windows_ * frames) return false;
  const size_t column = frame_ % frames;
  if (column == 0) features_.emplace_back(size_t{window_.mels} * frames, feature(std::log10(least_energy)));
  const std::span<const double> energies = spectrum_->energies(
      samples_, static_cast<int64_t>(frame_ * window_.hop), static_cast<int64_t>(windows_ * window_.samples));
  for (size_t mel = 0; mel < window_.mels && !energies.empty(); ++mel) {
    const double log = std::log10(std::max(spectrum_->of_band(energies, mel), least_energy));
    loudest_ = std::max(loudest_, log);
    features_.back()[mel * frames + column] = feature(log);
  }
  ++frame_;
  return true;
}

std::vector<std::vector<float>> HostLogMel::take() {
  const float least = feature(loudest_ - range);
  for (std::vector<float>& window : features_) {
    for (float& each : window) each = std::max(each, least);
  }
  return std::move(features_);
}

} // namespace pumice
