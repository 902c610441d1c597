#pragma once

#include "gpu/device.h"
#include "tools/pumice/doctor/verdict.h"

namespace pumice::command {

// The device's heaps and types of memory, and how much of it is free.
Verdict check_memory(const Device& device);

} // namespace pumice::command
