#pragma once

#include <vector>

#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// Runs a plan once with a timestamp and a barrier around every dispatch, and returns the seconds that each
// took, in the plan's order; in several submissions where one could run too long. The first run of a plan may
// include the time that the driver takes to compile kernels.
Result<std::vector<double>> time_dispatches(const DeviceContext& context, const Plan& plan,
                                            const BufferLookup& lookup);

} // namespace pumice
