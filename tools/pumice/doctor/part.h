#pragma once

#include <string>

#include "gpu/device.h"
#include "options/options.h"
#include "output/json_output.h"
#include "tuning/kernel_case.h"

namespace pumice::command {

struct DoctorOptions {
  DeviceOptions device;
  bool json = false;
  bool quick = false;
  std::string only;    // what is looked at has this in its name; empty: everything
  double patience = 0; // seconds without a line after which a part hangs; 0: as DeviceOptions has it
};

// The cases of kernels that are tried.
std::vector<KernelCaseName> cases_of(const DoctorOptions& options);
// Whether something of this name is looked at.
bool is_wanted(const DoctorOptions& options, const std::string& name);
// Whether a variant's kernels are tried with a case. A family without variants has one without a name.
bool is_wanted_case(const DoctorOptions& options, const KernelCaseName& name, const std::string& variant);

// What may crash or hang runs in a child process, part by part: "open", "kernels FAMILY VARIANT", "large",
// "model" and "speed". The parent's line is the JSON of part_request(). The child's lines are {"begin": NAME}
// before it tries something, {"end": NAME, ...} with the result, and {"error": TEXT} if it cannot go on.

// The only argument of such a child: main() then calls run_doctor_part().
inline constexpr const char* doctor_part_argument = "--doctor-part";
int run_doctor_part();

// `from`: the first case of kernels that is tried.
Json part_request(const DoctorOptions& options, const std::string& part, size_t from);

} // namespace pumice::command
