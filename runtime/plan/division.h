#pragma once

#include <vector>

#include "kernel/device_speed.h"
#include "kernel/dispatch.h"

namespace pumice {

// Divides a launch into launches of some of its workgroups each, so that none is predicted to take longer
// than longest_dispatch_seconds. Workgroups do not depend on each other, so the parts compute the same bits
// in any order, and need no barriers between them. A single workgroup is not divided, and neither is an axis
// of which the kernel asks the number of workgroups. A short launch is returned as it is.
std::vector<Dispatch> divide(const Dispatch& dispatch, const DeviceSpeed& speed);

} // namespace pumice
