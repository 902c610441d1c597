#pragma once

#include <span>

#include "base/progress.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// Compiles the kernels of plans that the device has not run yet. First makes their pipelines, with the help
// of so many threads. Then runs each without any workgroups, because some drivers compile only then. Each has
// a submission of its own, so that other work on the queue waits for one compilation at most. Calls
// DeviceContext::compiling with the kernels that are compiled, and `progress` with the same in steps: one for
// a kernel's pipeline and one for its first run. Asks `progress` at least once.
Status compile_kernels(const DeviceContext& context, std::span<const Plan* const> plans,
                       const BufferLookup& lookup, size_t threads = 0, const Progress& progress = {});

} // namespace pumice
