#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// Resamples sound with a windowed sinc filter: flat up to 88 % of the lower rate's band, and 90 dB of
// attenuation where it would alias. Silence is assumed before and after the sound. If the rates are equal,
// the samples are returned without changes. The rates must be above 0.
std::vector<float> resample(std::span<const float> samples, uint32_t from, uint32_t to);

} // namespace pumice
