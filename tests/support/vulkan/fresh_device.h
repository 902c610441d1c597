#pragma once

#include "kernel/probe/open_device.h"

// A device of its own with these options, validated as in support/vulkan/gpu.h and with the profile that was
// chosen for the test device, so that nothing has been allocated on it yet.
pumice::DeviceContext fresh_device(const pumice::DeviceOptions& options = {});
