#pragma once

#include <optional>

#include "doctor/verdict.h"
#include "options/options.h"

namespace pumice::command {

// What keeps Vulkan from showing a device that can be used, and what to do. Nothing if it shows the one that
// is wanted.
std::optional<Verdict> no_device(const DeviceOptions& options);

} // namespace pumice::command
