#include "doctor/part.h"

#include <functional>

#include <fmt/format.h>

#include "base/guarded.h"
#include "kernel/probe/probe.h"
#include "loading/open_device.h"
#include "process/child_process.h"
#include "process/temporary_folder.h"
#include "tuning/check_kernels.h"
#include "tuning/check_model.h"

namespace pumice::command {

namespace {

constexpr uint32_t case_repeats = 4; // of a case: races seldom show at once
constexpr uint64_t gib = uint64_t{1} << 30;

// What a child was asked for.
struct Part {
  DoctorOptions options;
  std::string name;
  size_t from = 0;
};

// The child's work. Its parent hears of each step.
class PartRun {
public:
  PartRun(const ParentProcess& parent, Part part) : parent_(parent), part_(std::move(part)) {}

  Status run() {
    PUMICE_CHECK(attempt("opening the device", [&]() -> Result<Json> {
      PUMICE_TRY(device_, open_device(part_.options.device));
      return Json::object();
    }));
    device_.context.compiling = {};
    if (part_.name.starts_with("kernels ")) PUMICE_CHECK(check_variant(part_.name.substr(8)));
    if (part_.name == "large") PUMICE_CHECK(check_large());
    if (part_.name == "model") PUMICE_CHECK(check_text());
    if (part_.name == "speed") PUMICE_CHECK(measure_speed());
    return device_.save_pipelines();
  }
  void say(const Json& line) const { parent_.say(line.dump(-1, ' ', false, Json::error_handler_t::replace)); }

private:
  // Tries something and says what came of it. An error ends the part.
  Status attempt(const std::string& name, const std::function<Result<Json>()>& work) const {
    say({{"begin", name}});
    Result<Json> result = work();
    if (!result.ok()) return result.error();
    Json line{{"end", name}};
    line.update(*result);
    say(line);
    return {};
  }

  Result<Json> check_case(const KernelCaseName& name, const std::string& variant) const {
    PUMICE_TRY(const std::optional<CaseResult> result,
               check_kernels(device_.context, name, variant, case_repeats));
    if (!result) return Json{{"runs", false}};
    return Json{{"runs", true}, {"kernel", result->kernel}, {"wrong", result->wrong}};
  }

  Status check_variant(const std::string& which) const {
    const size_t space = which.find(' ');
    const std::string family = which.substr(0, space), variant = which.substr(space + 1);
    const std::vector<KernelCaseName> cases = cases_of(part_.options);
    for (size_t i = part_.from; i < cases.size(); ++i) {
      if (cases[i].family != family || !is_wanted_case(part_.options, cases[i], variant)) continue;
      PUMICE_CHECK(attempt(cases[i].name, [&] { return check_case(cases[i], variant); }));
    }
    return {};
  }

  // Weights beyond 2 and 4 GiB, where the device has room for them and for what uploading them takes.
  Status check_large() const {
    for (uint64_t bytes : {2 * gib, 4 * gib}) {
      PUMICE_CHECK(attempt(fmt::format("beyond {} GiB", bytes / gib), [&]() -> Result<Json> {
        if (device_.context.device->memory().available < bytes + bytes / 4) return Json{{"runs", false}};
        return check_case(large_product(bytes), "");
      }));
    }
    return {};
  }

  Status check_text() const {
    PUMICE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
    PUMICE_CHECK(write_check_model(folder.path()));
    const auto with = [&](const char* variant) -> Result<Json> {
      DeviceContext context = device_.context;
      context.profile.forced = variant;
      PUMICE_TRY(const std::shared_ptr<const Model> model, Model::load(folder.path(), context));
      PUMICE_TRY(const std::string wrong, check_model(model));
      return Json{{"wrong", wrong}};
    };
    PUMICE_CHECK(attempt("text", [&] { return with(""); }));
    return attempt("text with the plain kernels", [&] { return with("portable"); });
  }

  Status measure_speed() const {
    return attempt("speed", [&]() -> Result<Json> {
      PUMICE_TRY(const Ceilings ceilings, recent_ceilings(device_.context.device, device_.context.pipelines));
      return Json{{"copy_bytes_per_second", ceilings.copy_bytes_per_second},
                  {"flops_per_second", ceilings.flops_per_second}};
    });
  }

  const ParentProcess& parent_;
  Part part_;
  OpenedDevice device_;
};

Part read_request(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  Part part;
  if (!json.is_object()) return part; // the parent has ended
  part.name = json["part"];
  part.from = json["from"];
  part.options.quick = json["quick"];
  part.options.only = json["only"];
  DeviceOptions& device = part.options.device;
  device.device = json["device"];
  device.cache = json["cache"];
  device.no_cache = json["no_cache"];
  device.loader = json["loader"];
  return part;
}

} // namespace

std::vector<KernelCaseName> cases_of(const DoctorOptions& options) {
  return kernel_cases(options.quick ? CaseSet::quick : CaseSet::all);
}

bool is_wanted(const DoctorOptions& options, const std::string& name) {
  return name.find(options.only) != std::string::npos;
}

bool is_wanted_case(const DoctorOptions& options, const KernelCaseName& name, const std::string& variant) {
  return is_wanted(options,
                   fmt::format("{}{}{} {}", name.family, variant.empty() ? "" : " ", variant, name.name));
}

Json part_request(const DoctorOptions& options, const std::string& part, size_t from) {
  const DeviceOptions& device = options.device;
  return {{"part", part},
          {"from", from},
          {"quick", options.quick},
          {"only", options.only},
          {"device", device.device},
          {"cache", device.cache},
          {"no_cache", device.no_cache},
          {"loader", device.loader}};
}

int run_doctor_part() {
  const ParentProcess parent;
  set_verbosity(Verbosity::quiet);
  PartRun run(parent, read_request(parent.request()));
  const Status status = guarded([&] { return run.run(); });
  if (status.ok()) return 0;
  run.say({{"error", status.error().text()}});
  return 1;
}

} // namespace pumice::command
