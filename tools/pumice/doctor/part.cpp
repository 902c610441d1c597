#include "tools/pumice/doctor/part.h"

#include <functional>

#include <fmt/format.h>

#include "kernel/probe/probe.h"
#include "tools/pumice/json_output.h"
#include "tools/pumice/open_device.h"
#include "tools/pumice/temporary_folder.h"
#include "tuning/check_kernels.h"
#include "tuning/check_model.h"

namespace pumice::command {

namespace {

constexpr uint32_t repeats = 4; // of a case: races seldom show at once
constexpr uint64_t gib = uint64_t{1} << 30;

void put(const Json& line) {
  print_result(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

// Tries something and writes what came of it. An error of the kind that ends the part is returned.
Status attempt(const std::string& name, const std::function<Result<Json>()>& work) {
  put({{"begin", name}});
  Result<Json> result = work();
  if (!result.ok()) return result.error();
  Json line{{"end", name}};
  line.update(*result);
  put(line);
  return {};
}

Result<Json> json_of_case(const OpenedDevice& device, const KernelCaseName& name,
                          const std::string& variant) {
  PUMICE_TRY(const std::optional<CaseResult> result, check_kernels(device.context, name, variant, repeats));
  if (!result) return Json{{"runs", false}};
  return Json{{"runs", true}, {"kernel", result->kernel}, {"wrong", result->wrong}};
}

Status check_variant(const OpenedDevice& device, const DoctorOptions& options, const std::string& which) {
  const size_t space = which.find(' ');
  const std::string family = which.substr(0, space), variant = which.substr(space + 1);
  const std::vector<KernelCaseName> cases = cases_of(options);
  for (size_t i = options.from; i < cases.size(); ++i) {
    if (cases[i].family != family || !is_wanted(options, fmt::format("{} {}", which, cases[i].name)))
      continue;
    if (interrupted()) return interruption();
    PUMICE_CHECK(attempt(cases[i].name, [&] { return json_of_case(device, cases[i], variant); }));
  }
  return {};
}

// Weights beyond 2 and 4 GiB, where the device has room for them and what uploading them takes.
Status check_large(const OpenedDevice& device) {
  for (uint64_t bytes : {2 * gib, 4 * gib}) {
    const std::string name = fmt::format("beyond {} GiB", bytes / gib);
    PUMICE_CHECK(attempt(name, [&]() -> Result<Json> {
      if (device.context.device->memory().available < bytes + bytes / 4) return Json{{"runs", false}};
      return json_of_case(device, large_product(bytes), "");
    }));
  }
  return {};
}

Status check_text(OpenedDevice& device) {
  PUMICE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  PUMICE_CHECK(write_check_model(folder.path()));
  const auto with = [&](const char* variant) -> Result<Json> {
    DeviceContext context = device.context;
    context.profile.forced = variant;
    PUMICE_TRY(const std::shared_ptr<const Model> model, Model::load(folder.path(), context));
    PUMICE_TRY(const std::string wrong, check_model(model));
    return Json{{"wrong", wrong}};
  };
  PUMICE_CHECK(attempt("text", [&] { return with(""); }));
  return attempt("text with the plain kernels", [&] { return with("portable"); });
}

Status measure_speed(const OpenedDevice& device) {
  return attempt("speed", [&]() -> Result<Json> {
    PUMICE_TRY(const Ceilings ceilings, recent_ceilings(device.context.device, device.context.pipelines));
    return Json{{"copy_bytes_per_second", ceilings.copy_bytes_per_second},
                {"flops_per_second", ceilings.flops_per_second}};
  });
}

Status run_named(const DoctorOptions& options) {
  std::optional<OpenedDevice> device;
  PUMICE_CHECK(attempt("opening the device", [&]() -> Result<Json> {
    PUMICE_TRY(device, open_device(options.device));
    return Json::object();
  }));
  device->context.compiling = {};
  Status status;
  if (options.part.starts_with("kernels "))
    status = check_variant(*device, options, options.part.substr(8));
  else if (options.part == "large")
    status = check_large(*device);
  else if (options.part == "model")
    status = check_text(*device);
  else if (options.part == "speed")
    status = measure_speed(*device);
  PUMICE_CHECK(status);
  return device->save_pipelines();
}

} // namespace

std::vector<KernelCaseName> cases_of(const DoctorOptions& options) {
  return kernel_cases(options.quick ? CaseSet::quick : CaseSet::all);
}

bool is_wanted(const DoctorOptions& options, const std::string& name) {
  return name.find(options.only) != std::string::npos;
}

Status run_part(const DoctorOptions& options) {
  const Status status = run_named(options);
  if (!status.ok()) put({{"error", status.error().text()}});
  return status;
}

} // namespace pumice::command
