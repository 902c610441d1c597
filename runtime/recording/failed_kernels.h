#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernel/device_context.h"
#include "plan/plan.h"

namespace pumice {

using FailedKernels = std::map<std::string, Error>; // by the kernel's name: why no pipeline was made of it

// Puts the variants on the blocklist of the device and of the context's profile whose kernels the driver
// could not compile, so that the next plans take others. False where that does not help: nothing else can do
// the work, the variant was demanded, or memory was short.
bool leave_out(const FailedKernels& failed, const std::vector<Plan>& plans, DeviceContext& context);

} // namespace pumice
