#include "kernel/probe/probe.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "gpu/commands.h"
#include "kernel/launcher.h"
#include "shaders/probe/probe.params.h"

namespace pumice {

namespace {

struct Probe {
  std::string kernel;
  std::vector<uint32_t> constants;
  uint32_t quads = 0; // as in ProbeParams
  uint32_t groups = 0;
  uint64_t offset = 0, bytes = 0; // of both buffers
  uint32_t repeats = 1;           // in one run
};

// A probe made ready to run again and again.
class ProbeRun {
public:
  ProbeRun(const std::shared_ptr<Device>& device, const std::shared_ptr<Pipelines>& pipelines)
      : device_(device), launcher_(device, pipelines) {}

  Status record(const Probe& probe, const Buffer& source, const Buffer& target) {
    Dispatch dispatch;
    dispatch.kernel = probe.kernel;
    dispatch.constants = probe.constants;
    dispatch.set_params(ProbeParams{0, probe.quads, 0});
    const BufferRef source_ref{Space::scratch, PROBE_SOURCE, probe.offset,
                               std::min(probe.bytes, source.size())};
    dispatch.bind(PROBE_SOURCE, source_ref, Access::read);
    dispatch.bind(PROBE_TARGET,
                  {Space::scratch, PROBE_TARGET, probe.offset, std::min(probe.bytes, target.size())},
                  Access::write);
    if (device_->capabilities().buffer_device_address) {
      dispatch.pass_address(offsetof(ProbeParams, source), source_ref);
    }
    dispatch.groups = {probe.groups, 1, 1};
    PUMICE_TRY(commands_, Commands::create(device_, "probe"));
    PUMICE_CHECK(commands_.begin());
    for (uint32_t repeat = 0; repeat < probe.repeats; ++repeat) {
      commands_.barrier();
      PUMICE_CHECK(launcher_.record(commands_, dispatch, [&](const BufferRef& ref) -> const Buffer& {
        return ref.allocation == PROBE_SOURCE ? source : target;
      }));
    }
    return commands_.end();
  }

  // Keeps the shortest time, when nothing else disturbed the device. The first run does not count, because
  // the driver may compile in it.
  Status run() {
    const auto start = std::chrono::steady_clock::now();
    PUMICE_TRY(const TimelinePoint done, device_->submit(commands_.buffers()));
    PUMICE_CHECK(device_->wait(done));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (runs_++ > 0) shortest_ = std::min(shortest_, took.count());
    return {};
  }
  double shortest() const { return shortest_; }

private:
  std::shared_ptr<Device> device_;
  Launcher launcher_;
  Commands commands_;
  int runs_ = 0;
  double shortest_ = 1e9;
};

double shortest_of(std::span<const ProbeRun> probes) {
  double shortest = probes.front().shortest();
  for (const ProbeRun& probe : probes) shortest = std::min(shortest, probe.shortest());
  return shortest;
}

// Alternates runs of `some` and of `other` until neither has become faster for a while. Other programs
// disturb the times: many short runs make it likely that each has an undisturbed one.
Status run_alternately(std::span<ProbeRun> some, ProbeRun& other) {
  constexpr int patience = 12;
  constexpr auto longest = std::chrono::seconds(2);
  const auto start = std::chrono::steady_clock::now();
  for (int idle = 0; idle < patience; ++idle) {
    const double before = shortest_of(some), other_before = other.shortest();
    for (ProbeRun& probe : some) {
      PUMICE_CHECK(probe.run());
      PUMICE_CHECK(other.run());
    }
    if (shortest_of(some) < 0.98 * before || other.shortest() < 0.98 * other_before) idle = 0;
    if (idle > 1 && std::chrono::steady_clock::now() - start > longest) break;
  }
  return {};
}

Result<bool> uniform_loads_are_faster(const std::shared_ptr<Device>& device,
                                      const std::shared_ptr<Pipelines>& pipelines) {
  constexpr uint32_t groups = 16,
                     quads = 4096; // 1 MiB in all: long enough to time, short enough for a cold start
  constexpr int runs = 15;         // so many that each way has had a quiet moment on a busy machine
  PUMICE_TRY(Buffer source,
             Buffer::create(device, uint64_t{groups} * quads * 16, MemoryUse::device, "probe source"));
  PUMICE_TRY(Buffer target, Buffer::create(device, groups * 8 * 16, MemoryUse::device, "probe target"));
  ProbeRun by_lane(device, pipelines), uniform(device, pipelines);
  PUMICE_CHECK(by_lane.record({"load.cpu8", {8, 0}, quads, groups, 0, source.size()}, source, target));
  PUMICE_CHECK(uniform.record({"load.cpu8", {8, 1}, quads, groups, 0, source.size()}, source, target));
  for (int run = 0; run <= runs; ++run) {
    PUMICE_CHECK(by_lane.run());
    PUMICE_CHECK(uniform.run());
  }
  // Products gain more from uniform loads than this shows, since x comes that way too; where they are slow,
  // they are slower many times over. The margin keeps noise from choosing another profile on another day.
  return uniform.shortest() < 1.5 * by_lane.shortest();
}

// The same, kept for the next start.
Result<bool> known_uniform_loads(const std::shared_ptr<Device>& device,
                                 const std::shared_ptr<Pipelines>& pipelines) {
  const std::string name = "uniform loads";
  const std::map<std::string, std::string> tuning_results = pipelines->tuning_results();
  if (const auto value = tuning_results.find(name); value != tuning_results.end())
    return value->second == "fast";
  PUMICE_TRY(bool fast, uniform_loads_are_faster(device, pipelines));
  pipelines->set_tuning_result(name, fast ? "fast" : "slow");
  return fast;
}

// Of the sizes that may be chosen freely, the granularity that products go by: a workgroup's, else a
// subgroup's.
std::optional<MatrixGranularity> free_matrices(const Capabilities& capabilities) {
  // As products use them.
  constexpr uint32_t workgroup = 128, shared_bytes = 27 * 1024;
  constexpr MatrixShape of_workgroup = {32, 64, 16}, of_subgroup = {16, 16, 16};
  std::optional<MatrixGranularity> found;
  for (const MatrixGranularity& matrix : capabilities.matrix_granularities) {
    const MatrixShape product = matrix.workgroup ? of_workgroup : of_subgroup;
    if (product.m % matrix.m || product.n % matrix.n || product.k % matrix.k) continue;
    const bool together = matrix.workgroup == workgroup &&
                          capabilities.matrix_reserved_bytes + shared_bytes <= capabilities.max_shared_bytes;
    if (together || (matrix.workgroup == 0 && !found)) found = matrix;
  }
  return found;
}

} // namespace

Result<DeviceProfile> choose_profile(const std::shared_ptr<Device>& device,
                                     const std::shared_ptr<Pipelines>& pipelines) {
  const Capabilities& capabilities = device->capabilities();
  DeviceProfile profile;
  const std::vector<std::string> tiers = capabilities.tiers();
  const auto has = [&](const char* tier) {
    return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
  };
  profile.cpu8 = has("cpu8");
  if (profile.cpu8) {
    profile.workgroup = 8;
    profile.busy_groups = 16;
    profile.threads = std::max(1u, std::thread::hardware_concurrency());
    PUMICE_TRY(profile.uniform_loads, known_uniform_loads(device, pipelines));
  }
  if (capabilities.subgroup_ballot && capabilities.subgroup_shuffle)
    profile.subgroup = capabilities.kernel_subgroup_size();
  if (has("cm")) profile.matrix_shapes = capabilities.matrix_sizes;
  if (has("cm2")) {
    const std::optional<MatrixGranularity> matrix = free_matrices(capabilities);
    profile.cm2 = matrix.has_value();
    profile.cm2_workgroup = matrix ? matrix->workgroup : 0;
  }
  profile.shared_bytes = capabilities.max_shared_bytes;
  // Without the instruction the compiler writes out each product; what that is worth on a CPU is measured.
  profile.dot =
      capabilities.integer_dot_product && (capabilities.integer_dot_product_fast || capabilities.is_cpu());
  return with_tuning_results(std::move(profile), *pipelines);
}

DeviceProfile with_tuning_results(DeviceProfile profile, const Pipelines& pipelines) {
  profile.choices = std::make_shared<const Choices>(stored_choices(pipelines));
  profile.blocklist = std::make_shared<const Blocklist>(stored_blocklist(pipelines));
  return profile;
}

namespace {

// On CPUs short runs, which fit between what else they do, over parts of memory that no cache holds together;
// on GPUs long ones, in which a submission's own time disappears.
Result<Ceilings> probe_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines) {
  const Capabilities& capabilities = device->capabilities();
  const bool cpu = capabilities.is_cpu();
  const uint32_t workgroup = cpu ? 8 : 128, copy_quads = cpu ? 16384 : 1024;
  const uint64_t all =
      std::min({capabilities.memory_bytes / 16, capabilities.max_storage_range_bytes, uint64_t{128} << 20});
  const uint64_t piece = uint64_t{copy_quads} * 16, part = all / (cpu ? 8 : 1) / piece * piece;
  PUMICE_TRY(Buffer source, Buffer::create(device, all, MemoryUse::device, "probe source"));
  PUMICE_TRY(Buffer target, Buffer::create(device, all, MemoryUse::device, "probe target"));
  std::vector<ProbeRun> copies;
  Probe copy{"copy", {workgroup}, copy_quads, static_cast<uint32_t>(part / 16 / copy_quads), 0, part};
  copy.repeats = cpu ? 1 : 8;
  for (; copy.offset + part <= all; copy.offset += part) {
    PUMICE_CHECK(copies.emplace_back(device, pipelines).record(copy, source, target));
  }
  const uint32_t rounds = cpu ? 8000 : 2000, groups = cpu ? 16 : 4096;
  ProbeRun arithmetic(device, pipelines);
  PUMICE_CHECK(arithmetic.record({"arithmetic", {workgroup}, rounds, groups, 0, all}, source, target));

  PUMICE_CHECK(run_alternately(copies, arithmetic));
  return Ceilings{2.0 * copy.repeats * static_cast<double>(part) / shortest_of(copies),
                  2.0 * 3 * 4 * 8 * rounds * groups * workgroup / arithmetic.shortest()};
}

constexpr const char* ceilings_key = "ceilings";

std::optional<Ceilings> stored_ceilings(const Pipelines& pipelines) {
  const std::map<std::string, std::string> tuning_results = pipelines.tuning_results();
  const auto value = tuning_results.find(ceilings_key);
  if (value == tuning_results.end()) return {};
  Ceilings ceilings;
  std::istringstream text(value->second);
  text >> ceilings.copy_bytes_per_second >> ceilings.flops_per_second;
  if (!text || !(ceilings.copy_bytes_per_second > 0) || !(ceilings.flops_per_second > 0)) return {};
  text >> ceilings.copy_time >> ceilings.flops_time >> ceilings.measured_time;
  if (!text) ceilings.copy_time = ceilings.flops_time = ceilings.measured_time = 0; // an earlier version's
  return ceilings;
}

int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

} // namespace

Ceilings raise_ceilings(Pipelines& pipelines, const Ceilings& reached) {
  Ceilings ceilings = stored_ceilings(pipelines).value_or(Ceilings());
  const int64_t now = seconds_since_1970();
  if (reached.copy_bytes_per_second > ceilings.copy_bytes_per_second) {
    ceilings.copy_bytes_per_second = reached.copy_bytes_per_second;
    ceilings.copy_time = now;
  }
  if (reached.flops_per_second > ceilings.flops_per_second) {
    ceilings.flops_per_second = reached.flops_per_second;
    ceilings.flops_time = now;
  }
  ceilings.measured_time = std::max(ceilings.measured_time, reached.measured_time);
  pipelines.set_tuning_result(ceilings_key, fmt::format("{} {} {} {} {}", ceilings.copy_bytes_per_second,
                                                        ceilings.flops_per_second, ceilings.copy_time,
                                                        ceilings.flops_time, ceilings.measured_time));
  return ceilings;
}

Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device,
                                  const std::shared_ptr<Pipelines>& pipelines) {
  PUMICE_TRY(Ceilings found, probe_ceilings(device, pipelines));
  found.measured_time = seconds_since_1970();
  return raise_ceilings(*pipelines, found);
}

Result<Ceilings> recent_ceilings(const std::shared_ptr<Device>& device,
                                 const std::shared_ptr<Pipelines>& pipelines) {
  constexpr int64_t hour = 3600;
  const std::optional<Ceilings> kept = stored_ceilings(*pipelines);
  const int64_t age = kept ? seconds_since_1970() - kept->measured_time : hour;
  return age >= 0 && age < hour ? Result<Ceilings>(*kept) : measure_ceilings(device, pipelines);
}

Result<Ceilings> known_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines) {
  if (const std::optional<Ceilings> kept = stored_ceilings(*pipelines)) return *kept;
  return measure_ceilings(device, pipelines);
}

} // namespace pumice
