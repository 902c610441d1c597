#pragma once

#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// Compiles the kernels of a plan that the device has not run yet, one after the other: makes the pipelines,
// and runs each without any workgroups, because some drivers compile only then. Each has a submission of its
// own, so that other work on the queue waits for one compilation at most. Calls DeviceContext::compiling.
Status compile_kernels(const DeviceContext& context, const Plan& plan, const BufferLookup& lookup);

} // namespace pumice
