#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// Sound at another rate, by a windowed sinc: flat to 88 % of the lower rate's band and 90 dB down where it
// would fold over. Silence lies before and after. Samples that share a rate come back as they are. The rates
// are above 0.
std::vector<float> resample(std::span<const float> samples, uint32_t from, uint32_t to);

} // namespace pumice
