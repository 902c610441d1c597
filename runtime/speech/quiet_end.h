#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pumice {

// Where to cut samples that go on: the middle of the quietest fiftieth of a second in their last quarter.
size_t quiet_end(std::span<const float> samples, uint32_t sample_rate);

} // namespace pumice
