#pragma once

#include <optional>
#include <span>

#include "kernel/device_speed.h"
#include "tuning/tuner.h"

namespace pumice {

// The rates of the variants that were chosen, over all classes: of floating-point operations in those that
// mostly compute, of bytes in those that mostly read. Half of it is kept as a margin, because other kernels
// may be slower than those that were measured. A rate that nothing was measured of stays as in `before`;
// nothing at all: no rate was measured.
std::optional<DeviceSpeed> measured_speed(std::span<const TunedClass> classes, const DeviceSpeed& before);

} // namespace pumice
