#pragma once

#include <functional>
#include <optional>
#include <string>

#include "doctor/part.h"
#include "doctor/verdict.h"
#include "kernel/choices.h"
#include "loading/open_device.h"

namespace pumice::command {

// What the kernel variants of a device do, each tried in a process of its own.
struct KernelFindings {
  Blocklist blocklist;        // those that are wrong, crash or hang
  std::set<std::string> good; // keys of those that did all their cases right
};

// Tries each variant that runs on the device, adds to the findings and calls `tell` with its verdict. Errors:
// interrupted; the processes could not be started. What was found until then is there.
Status check_all_kernels(const DoctorOptions& options, const OpenedDevice& device,
                         const std::function<void(Verdict)>& tell, KernelFindings& findings);

// How the reasons begin that are put on the blocklist here.
inline const std::string doctor_reason = "pumice doctor: ";

// What came of one case that a part ran, in words; empty if it was right or does not run here.
std::string wrong_in(const Json& end);

} // namespace pumice::command
