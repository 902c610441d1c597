#pragma once

#include <string>

#include "tools/pumice/options.h"
#include "tuning/kernel_case.h"

// Parts of `pumice doctor` that may crash or hang run in processes of their own, which start this program
// again with the hidden option --part. Such a process writes lines of JSON: {"begin": NAME} before it tries
// something,
// {"end": NAME, ...} with the result, and {"error": TEXT} if it cannot go on.
namespace pumice::command {

struct DoctorOptions {
  DeviceOptions device;
  bool json = false;
  bool quick = false;
  std::string only; // what is looked at has this in its name; empty: everything
  double patience = 60; // seconds without a line after which a part hangs
  std::string part;     // "open", "kernels FAMILY VARIANT", "large", "model" or "speed"; empty: the whole
  size_t from = 0;      // of "kernels": the first case
};

// The cases of kernels that are tried.
std::vector<KernelCaseName> cases_of(const DoctorOptions& options);
// Whether something of this name is looked at.
bool is_wanted(const DoctorOptions& options, const std::string& name);

// In the process of a part.
Status run_part(const DoctorOptions& options);

} // namespace pumice::command
