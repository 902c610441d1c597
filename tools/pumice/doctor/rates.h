#pragma once

#include "doctor/verdict.h"
#include "kernel/ceilings.h"

namespace pumice::command {

// Whether a device of this type should copy and compute faster than was measured.
Verdict judge_rates(VkPhysicalDeviceType type, double copy_bytes_per_second, double flops_per_second);

} // namespace pumice::command
