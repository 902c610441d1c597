#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/device_context.h"
#include "tuning/kernel_case.h"

namespace pumice {

// What a kernel variant made of a case.
struct CaseResult {
  std::string kernel;  // that computed it, as in the kernel table
  std::string wrong;   // a sentence; empty if it is right
  bool failed = false; // `wrong` is an error of the driver: there are no results
};

// The variants of the case's family that can run it on this device, in the family's order: the plain one is
// the last. Of a family without variants: one without a name.
Result<std::vector<std::string>> variants_for(const DeviceContext& context, const KernelCaseName& name);

// Runs a case with a variant so many times. Its results must be those of the processor, within a tolerance,
// and the same bits each time. Returns nothing if the variant cannot run the case here. With an empty name,
// the variant that a model would use. `threads`: as for GraphRun. `go_on` is asked before each submission;
// empty: always. An error if the device was lost, memory was short or `go_on` said no (`cancelled`).
Result<std::optional<CaseResult>> check_kernels(const DeviceContext& context, const KernelCaseName& name,
                                                const std::string& variant, uint32_t repeats,
                                                size_t threads = 0, const std::function<bool()>& go_on = {});

} // namespace pumice
