#include "forecast/chip.h"

#include <algorithm>
#include <cmath>

#include "kernel/probe/probe.h"

namespace pumice {

namespace {

struct KnownChip {
  Chip chip;
  GpuGeneration generation;
  double gigabytes;
};

const std::vector<KnownChip>& table() {
  static const std::vector<KnownChip> chips = [] {
    std::vector<KnownChip> all;
#define CHIP(NAME, TITLE, GENERATION, GIGABYTES, CORES, GHZ, LANES, INTEGERS, SUBGROUP, SUBGROUPS,           \
             REGISTERS, MEMORY, SHARE, MEMORY_NS, CACHE, CACHE_NS, LAUNCH, BARRIER, TFLOPS, OF_SUBGROUPS,    \
             SHARED_KB, SHARED_BYTES, CACHE_MB)                                                              \
  all.push_back({{#NAME,                                                                                     \
                  TITLE,                                                                                     \
                  CORES,                                                                                     \
                  GHZ * 1e9,                                                                                 \
                  LANES,                                                                                     \
                  INTEGERS,                                                                                  \
                  SUBGROUP,                                                                                  \
                  SUBGROUPS,                                                                                 \
                  REGISTERS * 1000,                                                                          \
                  MEMORY * 1e9,                                                                              \
                  SHARE,                                                                                     \
                  MEMORY_NS * 1e-9,                                                                          \
                  CACHE * 1e9,                                                                               \
                  CACHE_NS * 1e-9,                                                                           \
                  LAUNCH * 1e-6,                                                                             \
                  BARRIER * 1e-6,                                                                            \
                  TFLOPS * 1e12 / (CORES * GHZ * 1e9),                                                       \
                  OF_SUBGROUPS,                                                                              \
                  SHARED_KB * 1024.0,                                                                        \
                  SHARED_BYTES,                                                                              \
                  CACHE_MB * 1e6,                                                                            \
                  false},                                                                                    \
                 GpuGeneration::GENERATION,                                                                  \
                 GIGABYTES});
#include "forecast/chips.def"
    return all;
  }();
  return chips;
}

// As the chip's driver answers, as far as a plan depends on it.
Capabilities capabilities_of(const KnownChip& known) {
  const Chip& chip = known.chip;
  Capabilities device;
  device.name = chip.title;
  device.driver = "none: a forecast";
  device.api_version = VK_API_VERSION_1_3;
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  device.memory_bytes = static_cast<uint64_t>(known.gigabytes * 1e9);
  device.max_allocation_bytes = device.max_storage_range_bytes = UINT32_MAX;
  device.storage_offset_alignment = 64;
  device.max_texels = 1u << 27;
  device.max_storage_buffers = 64;
  device.max_shared_bytes = 49152;
  device.max_push_constant_bytes = 256;
  device.max_workgroup_invocations = 1024;
  device.cores = chip.cores;
  device.max_workgroups = {INT32_MAX, 65535, 65535};
  device.subgroup_size = device.min_subgroup_size = device.max_subgroup_size = chip.subgroup;
  device.full_subgroups = device.subgroup_size_control = true;
  device.subgroup_ballot = device.subgroup_shuffle = true;
  device.buffer_device_address = device.timeline_semaphore = true;
  device.storage_16bit = device.storage_8bit = device.float16 = device.int8 = true;
  device.integer_dot_product = device.memory_model = true;
  const MatrixShape matrices{16, 16, 16};
  switch (known.generation) {
  case GpuGeneration::nvidia_turing:
    device.vendor_id = vendor::nvidia;
    device.integer_dot_product_fast = device.cooperative_matrix = true;
    device.matrix_sizes = {matrices};
    device.cooperative_matrix2 = device.workgroup_matrices = true;
    device.matrix_granularities = {{{32, 32, 16}, 128}};
    break;
  case GpuGeneration::amd_rdna3:
    device.vendor_id = vendor::amd;
    device.min_subgroup_size = 32;
    device.integer_dot_product_fast = device.cooperative_matrix = true;
    device.matrix_sizes = {matrices};
    break;
  case GpuGeneration::intel_xe2:
    device.vendor_id = vendor::intel;
    device.subgroup_size = device.max_subgroup_size = 32;
    device.integer_dot_product_fast = device.cooperative_matrix = true;
    device.matrix_sizes = {{8, 16, 16}};
    break;
  case GpuGeneration::qualcomm_adreno7xx:
    device.vendor_id = vendor::qualcomm;
    device.max_subgroup_size = device.subgroup_size = 128;
    device.max_storage_range_bytes = uint64_t{1} << 29;
    device.max_shared_bytes = 32768;
    break;
  default:
    device.max_shared_bytes = 32768;
    break;
  }
  if (device.vendor_id == vendor::qualcomm || device.vendor_id == 0) {
    device.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    device.unified_memory = true;
  }
  return device;
}

// The known chip that the device is, or else one of its maker's.
const Chip& most_alike(const Capabilities& device, GpuGeneration generation) {
  for (const Chip& chip : known_chips()) {
    if (device.name.find(chip.title) != std::string::npos) return chip;
  }
  switch (generation) {
  case GpuGeneration::nvidia_maxwell:
  case GpuGeneration::nvidia_turing:
    return *find_chip("4090");
  case GpuGeneration::amd_gcn:
  case GpuGeneration::amd_rdna:
  case GpuGeneration::amd_rdna3:
    return *find_chip("7900xtx");
  case GpuGeneration::intel_xe:
  case GpuGeneration::intel_alchemist:
  case GpuGeneration::intel_xe2:
    return *find_chip("b580");
  case GpuGeneration::qualcomm_adreno6xx:
  case GpuGeneration::qualcomm_adreno7xx:
    return *find_chip("adreno740");
  default:
    return *find_chip("m2");
  }
}

} // namespace

std::span<const Chip> known_chips() {
  static const std::vector<Chip> chips = [] {
    std::vector<Chip> all;
    for (const KnownChip& known : table()) all.push_back(known.chip);
    return all;
  }();
  return chips;
}

std::vector<std::string> chip_names() {
  std::vector<std::string> names;
  for (const Chip& chip : known_chips()) names.push_back(chip.name);
  names.emplace_back(this_chip);
  return names;
}

const Chip* find_chip(std::string_view name) {
  const std::span<const Chip> chips = known_chips();
  const auto found = std::ranges::find(chips, name, &Chip::name);
  return found == chips.end() ? nullptr : &*found;
}

DeviceContext context_of(const Chip& chip) {
  DeviceContext context;
  for (const KnownChip& known : table()) {
    if (known.chip.name != chip.name) continue;
    auto device = std::make_shared<Capabilities>(capabilities_of(known));
    context.profile = untuned_profile(*device);
    // As if it had been measured: how a plan divides long launches depends on it.
    context.profile.speed = {chip.cores * chip.lanes * chip.clock, chip.memory_bytes_per_second / 2};
    context.absent = std::move(device);
  }
  return context;
}

Chip chip_of(const Capabilities& device, const DeviceProfile& profile, const Ceilings& ceilings) {
  Chip chip;
  const double multiply_adds = ceilings.flops_per_second / 2;
  if (profile.cpu) {
    // Of lavapipe: a launch wakes its threads and waits for them.
    chip.cpu = true;
    chip.cores = std::max(1u, profile.threads);
    chip.clock = multiply_adds / chip.cores;
    chip.lanes = 1;
    chip.subgroup = 8;
    chip.subgroups = 1;
    chip.launch_seconds = chip.barrier_seconds = 30e-6;
    chip.loads_are_instructions = !profile.uniform_loads; // as those of the copy that the ceiling is of
    if (profile.uniform_loads) {
      chip.conversion_share = 0.6;
      chip.memory_share = 0.85; // it computes meanwhile
    }
  } else {
    chip = most_alike(device, profile.generation);
    chip.memory_share = 1; // the ceiling is what a kernel has reached
    if (profile.matrix_shapes.empty() && !profile.cm2) chip.matrix_flops = 0;
    const double cores = std::round(multiply_adds / chip.lanes / chip.clock);
    chip.cores = device.cores > 0 ? device.cores : std::max(1u, static_cast<uint32_t>(cores));
    if (profile.subgroup > 0) chip.subgroup = profile.subgroup;
  }
  chip.name = this_chip;
  chip.title = device.name;
  chip.memory_bytes_per_second = ceilings.copy_bytes_per_second;
  return chip;
}

} // namespace pumice
