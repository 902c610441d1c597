#include "kernel/probe/probe.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "gpu/commands.h"
#include "gpu/known_drivers.h"
#include "kernel/launcher.h"
#include "kernel/probe/core_count.h"
#include "kernel/probe/vector_registers.h"
#include "shaders/common/load.h"
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
  std::vector<Dispatch::Texels> texels = {};
};

// A probe made ready to run again and again.
class ProbeRun {
public:
  ProbeRun(const std::shared_ptr<Device>& device, const std::shared_ptr<Pipelines>& pipelines)
      : device_(device), pipelines_(pipelines), launcher_(device, pipelines) {}
  ProbeRun another() const { return {device_, pipelines_}; }

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
    dispatch.texels = probe.texels;
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
    PUMICE_CHECK(commands_.run_and_wait());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (runs_++ > 0) shortest_ = std::min(shortest_, took.count());
    return {};
  }
  double shortest() const { return shortest_; }

private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<Pipelines> pipelines_;
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

// A way in which the lanes of a probe get what they read.
struct Way {
  const char* name; // among the tuning results
  const char* kernel;
  uint32_t load; // its constant PROBE_LOAD_ID
};
constexpr Way by_lane = {"lane", "load.cpu8", LOAD_LANE}, uniform = {"uniform", "load.cpu8", LOAD_UNIFORM},
              texel = {"texel", "load.cpu8", LOAD_TEXEL};
constexpr Way pairs = {"pairs", "load_half.cpu8", 0}, halves = {"halves", "load_half.cpu8", 1};

// The shortest time of each way.
Result<std::vector<double>> time_ways(const std::shared_ptr<Device>& device,
                                      const std::shared_ptr<Pipelines>& pipelines,
                                      std::initializer_list<Way> ways) {
  constexpr uint32_t groups = 16,
                     quads = 4096; // 1 MiB in all: long enough to time, short enough for a cold start
  constexpr int runs = 15;         // so many that each way has had a quiet moment on a busy machine
  PUMICE_TRY(Buffer source,
             Buffer::create(device, uint64_t{groups} * quads * 16, MemoryUse::device, "probe source"));
  PUMICE_TRY(Buffer target, Buffer::create(device, groups * 8 * 16, MemoryUse::device, "probe target"));
  std::vector<ProbeRun> probes;
  for (const Way& way : ways) {
    Probe probe{way.kernel, {8, way.load}, quads, groups, 0, source.size()};
    if (way.load == LOAD_TEXEL) probe.texels = {{PROBE_TEXELS, PROBE_SOURCE}};
    PUMICE_CHECK(probes.emplace_back(device, pipelines).record(probe, source, target));
  }
  for (int run = 0; run <= runs; ++run) {
    for (ProbeRun& probe : probes) PUMICE_CHECK(probe.run());
  }
  std::vector<double> seconds;
  for (const ProbeRun& probe : probes) seconds.push_back(probe.shortest());
  return seconds;
}

Result<Way> fastest_loads(const std::shared_ptr<Device>& device,
                          const std::shared_ptr<Pipelines>& pipelines) {
  PUMICE_TRY(const std::vector<double> seconds, time_ways(device, pipelines, {by_lane, uniform, texel}));
  // Products gain more from uniform loads than this shows, since x comes that way too; where they are slow,
  // they are slower many times over. The margins keep noise from choosing another profile on another day.
  if (seconds[1] < 1.5 * std::min(seconds[0], seconds[2])) return Way(uniform);
  // A texel buffer may be shorter than a storage buffer.
  const Capabilities& capabilities = device->capabilities();
  const bool long_enough = uint64_t{capabilities.max_texels} * 4 >= capabilities.max_storage_range_bytes;
  return long_enough && 2 * seconds[2] < seconds[0] ? texel : by_lane;
}

Result<Way> fastest_halves(const std::shared_ptr<Device>& device,
                           const std::shared_ptr<Pipelines>& pipelines) {
  PUMICE_TRY(const std::vector<double> seconds, time_ways(device, pipelines, {pairs, halves}));
  // Halves that are loaded one by one take many times as long; otherwise they are faster.
  return seconds[1] < 2 * seconds[0] ? halves : pairs;
}

// The answer that an earlier start has kept, or else that of a probe, which is kept.
Result<Way> known_way(const std::shared_ptr<Device>& device, const std::shared_ptr<Pipelines>& pipelines,
                      const std::string& question, std::initializer_list<Way> ways,
                      Result<Way> (*probe)(const std::shared_ptr<Device>&,
                                           const std::shared_ptr<Pipelines>&)) {
  const std::map<std::string, std::string> tuning_results = pipelines->tuning_results();
  if (const auto value = tuning_results.find(question); value != tuning_results.end()) {
    for (const Way& way : ways) {
      if (value->second == way.name) return Way(way);
    }
  }
  PUMICE_TRY(const Way fastest, probe(device, pipelines));
  pipelines->set_tuning_result(question, fastest.name);
  return fastest;
}

// Work is divided for so many workgroups. Small GPUs are busy with fewer, and larger ones gain nothing from
// more.
void set_cores(DeviceProfile& profile, uint32_t cores) {
  constexpr uint32_t groups_of_core = 8;
  profile.cores = cores;
  if (cores > 0) profile.busy_groups = std::min(profile.busy_groups, cores * groups_of_core);
}

// A driver that computes on a CPU, also where a loader says that its device is a GPU.
bool computes_on_cpu(const Capabilities& device) {
  return device.is_cpu() || device.driver_id == VK_DRIVER_ID_MESA_LLVMPIPE ||
         device.driver_id == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
}

// Invocations of a workgroup that counts cores: as many as keep a core busy.
constexpr uint32_t counting_workgroup = 256;

// How many cores a GPU has that does not say it. An earlier start has kept it, or else it is counted and
// kept. 0: it is not known.
uint32_t known_cores(const std::shared_ptr<Device>& device, const std::shared_ptr<Pipelines>& pipelines) {
  constexpr const char* question = "cores";
  const std::map<std::string, std::string> tuning_results = pipelines->tuning_results();
  if (const auto kept = tuning_results.find(question); kept != tuning_results.end()) {
    uint32_t cores = 0;
    std::istringstream(kept->second) >> cores;
    return cores <= most_grid ? cores : 0;
  }
  if (computes_on_cpu(device->capabilities())) return 0;
  if (device->is_adopted()) return 0; // the application's frames are not to wait for it
  const Result<uint32_t> cores = probe_cores(device, pipelines);
  if (!cores.ok()) return 0; // kernels have shapes without it, too
  if (*cores > 0) pipelines->set_tuning_result(question, std::to_string(*cores)); // else once more next time
  return *cores;
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

DeviceProfile untuned_profile(const Capabilities& device) {
  DeviceProfile profile;
  const std::vector<std::string> tiers = device.tiers();
  const auto has = [&](const char* tier) {
    return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
  };
  profile.cpu8 = has("cpu8");
  profile.cpu = device.is_cpu();
  if (profile.cpu) {
    profile.workgroup = 8;
    profile.busy_groups = 16;
    profile.threads = std::max(1u, std::thread::hardware_concurrency());
  }
  if (device.subgroup_ballot && device.subgroup_shuffle) profile.subgroup = device.kernel_subgroup_size();
  if (has("cm")) profile.matrix_shapes = device.matrix_sizes;
  if (has("cm2")) {
    const std::optional<MatrixGranularity> matrix = free_matrices(device);
    profile.cm2 = matrix.has_value();
    profile.cm2_workgroup = matrix ? matrix->workgroup : 0;
  }
  profile.shared_bytes = device.max_shared_bytes;
  profile.most_invocations = device.max_workgroup_invocations;
  if (!profile.cpu) set_cores(profile, device.cores);
  profile.storage_buffers = device.max_storage_buffers;
  profile.generation = generation_of(device);
  profile.registers = register_limits(profile.generation);
  profile.range_bytes = device.max_storage_range_bytes;
  profile.speed = assumed_speed(device);
  // Without the instruction the compiler writes out each product; what that is worth on a CPU is measured.
  profile.dot = device.integer_dot_product && (device.integer_dot_product_fast || device.is_cpu());
  return profile;
}

Result<DeviceProfile> choose_profile(const std::shared_ptr<Device>& device,
                                     const std::shared_ptr<Pipelines>& pipelines) {
  const Capabilities& capabilities = device->capabilities();
  DeviceProfile profile = untuned_profile(capabilities);
  if (profile.cpu8) {
    PUMICE_TRY(const Way loads,
               known_way(device, pipelines, "loads", {by_lane, uniform, texel}, fastest_loads));
    profile.uniform_loads = loads.load == LOAD_UNIFORM;
    profile.texel_loads = loads.load == LOAD_TEXEL;
    profile.vector_registers = vector_registers();
  }
  const std::vector<std::string> tiers = capabilities.tiers();
  if (std::ranges::count(tiers, "half8") > 0 && profile.uniform_loads) {
    PUMICE_TRY(const Way loads, known_way(device, pipelines, "halves", {pairs, halves}, fastest_halves));
    profile.half_loads = loads.load == halves.load;
  }
  if (!profile.cpu && profile.cores == 0) set_cores(profile, known_cores(device, pipelines));
  return with_tuning_results(std::move(profile), *pipelines);
}

Result<uint32_t> probe_cores(const std::shared_ptr<Device>& device,
                             const std::shared_ptr<Pipelines>& pipelines) {
  if (device->capabilities().max_workgroup_invocations < counting_workgroup) return 0u;
  PUMICE_TRY(Buffer target, Buffer::create(device, uint64_t{most_grid} * counting_workgroup * 16,
                                           MemoryUse::device, "probe target"));
  const ProbeRun blank(device, pipelines);
  return count_cores([&](uint32_t groups, uint32_t rounds) -> Result<double> {
    ProbeRun run = blank.another();
    PUMICE_CHECK(
        run.record({"arithmetic", {counting_workgroup}, rounds, groups, 0, target.size()}, target, target));
    for (int i = 0; i < 2; ++i) PUMICE_CHECK(run.run()); // the first one does not count
    return run.shortest();
  });
}

DeviceProfile with_tuning_results(DeviceProfile profile, const Pipelines& pipelines) {
  profile.speed = stored_speed(pipelines).value_or(profile.speed);
  profile.choices = std::make_shared<const Choices>(stored_choices(pipelines));
  Blocklist blocklist = stored_blocklist(pipelines);
  for (const KnownDriver& fault : known_faults(pipelines.device().capabilities())) {
    if (fault.left_out) blocklist.insert({fault.left_out, {fault.text()}});
  }
  profile.blocklist = std::make_shared<const Blocklist>(std::move(blocklist));
  return profile;
}

namespace {

// A probe of some size, from 1 on: its work grows with it.
using SizedProbe = std::function<Probe(uint32_t)>;

// The probe of the size, from `least` to `most`, that runs so long that a submission's own time disappears,
// and no longer: nothing is known yet of how fast the device is.
Result<Probe> grown(const SizedProbe& probe, uint32_t least, uint32_t most, const ProbeRun& blank,
                    const Buffer& source, const Buffer& target) {
  constexpr double wanted = longest_dispatch_seconds / 4;
  constexpr double most_growth = 16; // of a short run's time, most may be the submission's own
  for (uint32_t size = least;;) {
    ProbeRun run = blank.another();
    PUMICE_CHECK(run.record(probe(size), source, target));
    for (int i = 0; i < 2; ++i) PUMICE_CHECK(run.run()); // the first one does not count
    const double growth = std::min(most_growth, wanted / run.shortest());
    if (size == most || growth < 2) return probe(size);
    size = static_cast<uint32_t>(std::min<double>(most, size * growth));
  }
}

Ceilings reached_by(const Probe& copy, double copy_seconds, const Probe& arithmetic,
                    double arithmetic_seconds) {
  constexpr double flops_a_round = 2.0 * 3 * 4 * 8; // of an invocation, see shaders/probe/arithmetic.comp
  const double invocations = double{1} * arithmetic.groups * arithmetic.constants[0];
  return {2.0 * 16 * copy.quads * copy.groups * copy.repeats / copy_seconds,
          flops_a_round * arithmetic.quads * invocations / arithmetic_seconds};
}

// Short runs, which fit between what else a CPU does, over parts of memory that no cache holds together.
Result<Ceilings> probe_cpu(const ProbeRun& blank, const Buffer& source, const Buffer& target) {
  constexpr uint32_t workgroup = 8, quads = 16384, parts = 8;
  const uint64_t piece = uint64_t{quads} * 16, part = source.size() / parts / piece * piece;
  std::vector<ProbeRun> copies;
  Probe copy{"copy", {workgroup}, quads, static_cast<uint32_t>(part / piece), 0, part};
  for (; copy.offset + part <= source.size(); copy.offset += part) {
    PUMICE_CHECK(copies.emplace_back(blank.another()).record(copy, source, target));
  }
  const Probe arithmetic{"arithmetic", {workgroup}, 8000, 16, 0, source.size()};
  ProbeRun arithmetic_run = blank.another();
  PUMICE_CHECK(arithmetic_run.record(arithmetic, source, target));
  PUMICE_CHECK(run_alternately(copies, arithmetic_run));
  return reached_by(copy, shortest_of(copies), arithmetic, arithmetic_run.shortest());
}

Result<Ceilings> probe_gpu(const ProbeRun& blank, const Buffer& source, const Buffer& target) {
  constexpr uint32_t workgroup = 128, quads = 1024;
  const uint64_t all = source.size();
  const auto pieces = static_cast<uint32_t>(all / (uint64_t{quads} * 16));
  // Copies more pieces, then all of them repeatedly.
  const SizedProbe copies = [&](uint32_t size) {
    return Probe{"copy", {workgroup}, quads, std::min(size, pieces), 0, all, std::max(1u, size / pieces)};
  };
  const SizedProbe chains = [&](uint32_t size) {
    return Probe{"arithmetic", {workgroup}, size, 4096, 0, all};
  };
  PUMICE_TRY(const Probe copy, grown(copies, std::min(256u, pieces), 64 * pieces, blank, source, target));
  PUMICE_TRY(const Probe arithmetic, grown(chains, 1, 16384, blank, source, target));
  ProbeRun copy_run = blank.another(), arithmetic_run = blank.another();
  PUMICE_CHECK(copy_run.record(copy, source, target));
  PUMICE_CHECK(arithmetic_run.record(arithmetic, source, target));
  PUMICE_CHECK(run_alternately(std::span(&copy_run, 1), arithmetic_run));
  return reached_by(copy, copy_run.shortest(), arithmetic, arithmetic_run.shortest());
}

Result<Ceilings> probe_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines) {
  const Capabilities& capabilities = device->capabilities();
  constexpr uint64_t piece = uint64_t{1} << 18,
                     most = uint64_t{128} << 20; // whole workgroups of either probe
  const uint64_t bytes =
      std::min({capabilities.memory_bytes / 16, capabilities.max_storage_range_bytes, most}) / piece * piece;
  PUMICE_TRY(Buffer source, Buffer::create(device, bytes, MemoryUse::device, "probe source"));
  PUMICE_TRY(Buffer target, Buffer::create(device, bytes, MemoryUse::device, "probe target"));
  const ProbeRun blank(device, pipelines);
  return capabilities.is_cpu() ? probe_cpu(blank, source, target) : probe_gpu(blank, source, target);
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
