#pragma once

#include <span>
#include <vector>

#include "kernel/audio/log_mel.h"

namespace pumice {

// The features of a sound [mels, frames] as kernel/audio/log_mel.h has them, computed by the host: for sounds
// that have more than one window, whose loudest band counts for all of them. The samples are followed by
// zeros up to shape.samples.
std::vector<float> host_log_mel(std::span<const float> samples, const LogMelShape& shape);

} // namespace pumice
