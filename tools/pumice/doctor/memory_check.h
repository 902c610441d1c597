#pragma once

#include "doctor/verdict.h"
#include "gpu/device.h"

namespace pumice::command {

// The device's heaps and types of memory, and how much of it is free.
Verdict check_memory(const Device& device);

} // namespace pumice::command
