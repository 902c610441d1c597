#pragma once

#include <optional>

#include "gpu/capabilities.h"
#include "kernel/dispatch.h"

namespace pumice {

class Pipelines;

// Drivers reset a device that works on one dispatch for about two seconds, and nothing else runs on it until
// then. The limit is far below, because predicted times are rough.
inline constexpr double longest_dispatch_seconds = 0.1;

// The rates that kernels reach on a device. The time of a launch is predicted from them before the launch was
// measured itself. Without anything known of a device: those of a slow phone, or of a CPU.
struct DeviceSpeed {
  double flops_per_second = 20e9;
  double bytes_per_second = 5e9;

  double seconds(const Dispatch& dispatch) const {
    return dispatch.flops / flops_per_second + dispatch.bytes / bytes_per_second;
  }
  double copy_seconds(uint64_t bytes) const { // which are read and written
    return 2 * static_cast<double>(bytes) / bytes_per_second;
  }
};

// What is assumed of a device of this type before anything was measured: cautious, because a launch that is
// divided too often costs little, and one that is divided too seldom can cost the device.
DeviceSpeed assumed_speed(const Capabilities& device);

// The speed that was measured (tuning/measured_speed.h), as it is kept among the tuning results in the
// device's file; nothing if none was.
std::optional<DeviceSpeed> stored_speed(const Pipelines& pipelines);
void store_speed(Pipelines& pipelines, const DeviceSpeed& speed);

} // namespace pumice
