// One row for each device. A row names its source: a report at vulkan.gpuinfo.org, which Khronos'
// Vulkan-Profiles repository keeps copies of under profiles/LunarG, or what somebody posted of vulkaninfo's
// output. Sizes of heaps are rounded. What a source does not say is Vulkan's least, or a guess that the row
// admits.
#include "support/vulkan/device_profiles.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace {

constexpr uint64_t MiB = uint64_t{1} << 20, GiB = uint64_t{1} << 30;
constexpr uint32_t amd = 0x1002, apple = 0x106b, arm = 0x13b5, broadcom = 0x14e4, imagination = 0x1010,
                   intel = 0x8086, nvidia = 0x10de, qualcomm = 0x5143;
constexpr VkPhysicalDeviceType discrete = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
constexpr VkPhysicalDeviceType integrated = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
constexpr VkPhysicalDeviceType virtual_gpu = VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
constexpr uint32_t v12 = VK_API_VERSION_1_2, v13 = VK_API_VERSION_1_3;

constexpr VkMemoryHeapFlags of_device = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags host = visible | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkMemoryPropertyFlags is_protected = VK_MEMORY_PROPERTY_PROTECTED_BIT;
constexpr VkMemoryPropertyFlags lazy = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT;

constexpr VkQueueFlags transfer = VK_QUEUE_TRANSFER_BIT;
constexpr VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT | transfer;
constexpr VkQueueFlags graphics = VK_QUEUE_GRAPHICS_BIT | compute;
constexpr VkQueueFlags sparse = VK_QUEUE_SPARSE_BINDING_BIT;
constexpr VkExtent3D one = {1, 1, 1};

constexpr VkSubgroupFeatureFlags basic = VK_SUBGROUP_FEATURE_BASIC_BIT;
constexpr VkSubgroupFeatureFlags all_operations =
    basic | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
    VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT |
    VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT | VK_SUBGROUP_FEATURE_QUAD_BIT;

constexpr const char* budget = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
constexpr const char* dot_product = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
constexpr const char* size_control = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
constexpr const char* matrix = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;

// Of desktop GPUs of the last ten years. Matrices and 16-bit numbers are added by the rows.
ReportedFeatures desktop(bool float16, bool fast_dot, std::vector<pumice::MatrixShape> matrices = {}) {
  return {.timeline = true,
          .addresses = true,
          .float16 = float16,
          .int8 = true,
          .storage16 = true,
          .storage8 = true,
          .memory_model = true,
          .size_control = true,
          .dot = true,
          .fast_dot = fast_dot,
          .matrices = std::move(matrices)};
}

// NVIDIA's types without resizable BAR: heap 2 is the part of the device's memory that the host can map. With
// it, heap 2 is heap 0.
std::vector<VkMemoryType> nvidia_types(uint32_t mapped_heap) {
  return {{0, 1}, {local, 0}, {host, 1}, {host | cached, 1}, {local | host, mapped_heap}};
}

constexpr ReportedLimits nvidia_limits = {.shared_bytes = 49152,
                                          .invocations = 1024,
                                          .workgroup = {1024, 1024, 64},
                                          .workgroups = {2147483647, 65535, 65535},
                                          .push_constant_bytes = 256,
                                          .storage_buffers = 1048576,
                                          .storage_range = UINT32_MAX,
                                          .offset_alignment = 16,
                                          .allocation_bytes = INT64_MAX,
                                          .allocations = UINT32_MAX};
constexpr ReportedSubgroups nvidia_subgroups = {32, 32, 32, true, 32, all_operations};
constexpr ReportedLimits radv_limits = {.shared_bytes = 65536,
                                        .invocations = 1024,
                                        .workgroup = {1024, 1024, 1024},
                                        .workgroups = {UINT32_MAX, 65535, 65535},
                                        .push_constant_bytes = 256,
                                        .storage_buffers = 8388606,
                                        .storage_range = UINT32_MAX,
                                        .offset_alignment = 4,
                                        .allocation_bytes = 4294967292,
                                        .allocations = UINT32_MAX,
                                        .timestamp_period_ns = 10};

std::vector<ReportedDevice> all_devices() {
  return {
      // Discrete, without resizable BAR: 246 MiB of its memory can be mapped. Queues for transfers alone come
      // before those for compute alone. Vulkan-Profiles, desktop_baseline_2026: GTX 1650, driver 610.43.2.
      // Memory: KhronosGroup/Vulkan-Tools issue 446.
      {.name = "NVIDIA GeForce GTX 1650",
       .type = discrete,
       .vendor = nvidia,
       .api_version = v13,
       .limits = nvidia_limits,
       .subgroups = nvidia_subgroups,
       .features = desktop(true, true),
       .heaps = {{4 * GiB, of_device}, {6 * GiB, 0}, {246 * MiB, of_device}},
       .types = nvidia_types(2),
       .families = {{graphics | sparse, 16, 64, one},
                    {transfer | sparse, 2, 64, one},
                    {compute | sparse, 8, 64, one}},
       .extensions = {budget, dot_product, size_control}},

      // The same of AMD, before RDNA: one size of subgroups, which cannot be asked for, and no 16-bit
      // arithmetic. Vulkan-Profiles, desktop_baseline_2026: RX 570, RADV of Mesa 26.0.6. Memory: as RADV
      // without resizable BAR reports it.
      {.name = "AMD Radeon RX 570 (RADV)",
       .type = discrete,
       .vendor = amd,
       .api_version = v13,
       .limits = radv_limits,
       .subgroups = {64, 64, 64, false, UINT32_MAX, all_operations},
       .features = desktop(false, false),
       .heaps = {{3840 * MiB, of_device}, {8 * GiB, 0}, {256 * MiB, of_device}},
       .types = {{local, 0}, {host, 1}, {local | host, 2}, {host | cached, 1}},
       .families = {{graphics | sparse, 1, 64, one}, {compute | sparse, 4, 64, one}, {sparse, 1, 0, one}},
       .extensions = {budget, dot_product, size_control}},

      // Discrete, with resizable BAR, two sizes of subgroups and matrices. Vulkan-Profiles,
      // desktop_baseline_2026: RX 9070 XT, RADV of Mesa 26.1. Matrices and memory: as RADV reports them for
      // RDNA 4.
      {.name = "AMD Radeon RX 9070 XT (RADV)",
       .type = discrete,
       .vendor = amd,
       .api_version = v13,
       .limits = radv_limits,
       .subgroups = {64, 32, 64, true, UINT32_MAX, all_operations},
       .features = desktop(true, true, {{16, 16, 16}}),
       .heaps = {{16 * GiB, 0}, {16 * GiB, of_device}},
       .types = {{local, 1}, {host, 0}, {local | host, 1}, {host | cached, 0}},
       .families = {{graphics | sparse, 1, 64, one}, {compute | sparse, 4, 64, one}, {sparse, 1, 0, one}},
       .extensions = {budget, dot_product, size_control, matrix}},

      // The same of NVIDIA. Vulkan-Profiles, desktop_baseline_2026: RTX 5080, driver 610.62. Matrices: those
      // of its driver since Turing.
      {.name = "NVIDIA GeForce RTX 5080",
       .type = discrete,
       .vendor = nvidia,
       .api_version = v13,
       .limits = nvidia_limits,
       .subgroups = nvidia_subgroups,
       .features = desktop(true, true, {{16, 16, 16}, {16, 8, 16}, {16, 8, 8}}),
       .heaps = {{16 * GiB, of_device}, {16 * GiB, 0}},
       .types = nvidia_types(0),
       .families = {{graphics | sparse, 16, 64, one},
                    {transfer | sparse, 2, 64, one},
                    {compute | sparse, 8, 64, one}},
       .extensions = {budget, dot_product, size_control, matrix}},

      // Integrated; timestamps of 36 bits. Vulkan-Profiles, desktop_baseline_2026: Iris Xe (TGL), Mesa
      // 26.1.3.
      {.name = "Intel Iris Xe (TGL)",
       .type = integrated,
       .vendor = intel,
       .api_version = v13,
       .limits = {.shared_bytes = 49152,
                  .invocations = 1024,
                  .workgroup = {1024, 1024, 1024},
                  .workgroups = {2147483647, 65535, 65535},
                  .push_constant_bytes = 256,
                  .storage_buffers = 201326592,
                  .storage_range = UINT32_MAX,
                  .offset_alignment = 4,
                  .allocation_bytes = 12409119744,
                  .allocations = UINT32_MAX,
                  .timestamp_period_ns = 52.0833f},
       .subgroups = {32, 8, 32, true, 64, all_operations},
       .features = desktop(true, true),
       .heaps = {{11 * GiB, of_device}},
       .types = {{local | host, 0}, {local | host | cached, 0}},
       .families = {{graphics | sparse, 1, 36, one}},
       .extensions = {budget, dot_product, size_control}},

      // A virtual GPU: a part of a discrete one, whose memory cannot all be mapped. Made up of the GTX 1650's
      // report, with the type that a virtual device has, and with the least heap that can be mapped.
      {.name = "Virtual GPU",
       .type = virtual_gpu,
       .vendor = nvidia,
       .api_version = v13,
       .limits = nvidia_limits,
       .subgroups = nvidia_subgroups,
       .features = desktop(true, true),
       .heaps = {{2 * GiB, of_device}, {1 * GiB, 0}, {64 * MiB, of_device}},
       .types = nvidia_types(2),
       .families = {{graphics, 1, 64, one}},
       .extensions = {dot_product, size_control}},

      // Vulkan 1.2, 8 storage buffers to a shader, ranges of 128 MiB, subgroups without shuffles. vulkaninfo
      // in bevyengine/bevy issue 18867 (8 buffers, the queue, the heap and its only type; Mesa 25, which has
      // ranges of 1 GiB), raspberrypi/linux issue 4767 (alignment), LibreELEC.tv pull request 5884
      // (allocations, subgroups).
      {.name = "V3D 7.1 (Raspberry Pi 5)",
       .type = integrated,
       .vendor = broadcom,
       .api_version = v12,
       .limits = {.invocations = 256,
                  .workgroup = {256, 256, 256},
                  .storage_buffers = 8,
                  .offset_alignment = 32,
                  .allocations = 1048576},
       .subgroups = {.size = 16},
       .features =
           {.timeline = true, .addresses = true, .storage16 = true, .storage8 = true, .memory_model = true},
       .heaps = {{4 * GiB, of_device}},
       .types = {{local | host, 0}},
       .families = {{graphics, 1, 64, one}}},

      // Timestamps of 48 bits; a heap of its own for protected memory; memory that is cached and not
      // coherent. vulkaninfo of an Adreno 620 in termux/termux-packages pull request 7165; the other limits
      // are those of Mesa's driver (tu_device.cc).
      {.name = "Adreno (TM)",
       .type = integrated,
       .vendor = qualcomm,
       .api_version = v13,
       .limits = {.shared_bytes = 32768,
                  .invocations = 1024,
                  .workgroup = {1024, 1024, 1024},
                  .push_constant_bytes = 256,
                  .storage_buffers = 500000,
                  .offset_alignment = 64,
                  .allocations = UINT32_MAX,
                  .timestamp_period_ns = 52.0833f},
       .subgroups = {64, 64, 128, true, 16, all_operations},
       .features = {.timeline = true,
                    .addresses = true,
                    .float16 = true,
                    .int8 = true,
                    .storage16 = true,
                    .storage8 = true,
                    .memory_model = true,
                    .size_control = true,
                    .dot = true},
       .heaps = {{7 * GiB, of_device}, {256 * MiB, of_device}},
       .types = {{local, 0},
                 {local | visible | cached, 0},
                 {local | host | cached, 0},
                 {local | host, 0},
                 {local | is_protected, 1}},
       .families = {{VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_PROTECTED_BIT, 3, 48, one}},
       .extensions = {dot_product, size_control}},

      // No timestamps: strato-emu/compat-list issue 1554 (TSB0). Ranges of 256 MiB and 35 storage buffers:
      // termux/termux-packages issue 19460, which is of a later driver with Vulkan 1.3.
      {.name = "Mali-G76",
       .type = integrated,
       .vendor = arm,
       .api_version = v13,
       .limits = {.shared_bytes = 32768,
                  .invocations = 384,
                  .workgroup = {384, 384, 384},
                  .push_constant_bytes = 256,
                  .storage_buffers = 35,
                  .storage_range = 268435456,
                  .offset_alignment = 64,
                  .allocations = UINT32_MAX,
                  .timestamp_period_ns = 0},
       .subgroups = {8, 8, 8, false, 48, all_operations},
       .features = {.timeline = true,
                    .addresses = true,
                    .float16 = true,
                    .int8 = true,
                    .storage16 = true,
                    .storage8 = true,
                    .memory_model = true,
                    .size_control = true,
                    .dot = true,
                    .fast_dot = true},
       .heaps = {{4 * GiB, of_device}},
       .types =
           {{local | host, 0}, {local | visible | cached, 0}, {local | host | cached, 0}, {local | lazy, 0}},
       .families = {{graphics, 2, 0, one}},
       .extensions = {dot_product, size_control}},

      // 65,536 workgroups of up to 512 invocations, with 16 KiB. vulkaninfo of a VisionFive 2 in
      // meta-flutter/meta-flutter issue 454; storage buffers and subgroups are guesses.
      {.name = "PowerVR BXE-4-32",
       .type = integrated,
       .vendor = imagination,
       .api_version = v13,
       .limits = {.invocations = 512,
                  .workgroup = {512, 512, 64},
                  .workgroups = {65536, 65536, 65536},
                  .storage_buffers = 16,
                  .offset_alignment = 64},
       .subgroups = {32, 32, 32, false, 16, basic | VK_SUBGROUP_FEATURE_BALLOT_BIT},
       .features =
           {.timeline = true, .addresses = true, .float16 = true, .storage16 = true, .size_control = true},
       .heaps = {{4 * GiB, of_device}},
       .types = {{local | host, 0}, {local | host | cached, 0}},
       .families = {{graphics, 2, 64, one}},
       .extensions = {size_control}},

      // Vulkan on top of Metal: a portability subset, subgroups of several sizes that cannot be asked for, no
      // memory model. Vulkan-Profiles, desktop_baseline_2024: Apple M1, MoltenVK 1.2.8.
      {.name = "Apple M1 (MoltenVK)",
       .type = integrated,
       .vendor = apple,
       .api_version = v12,
       .limits = {.shared_bytes = 32768,
                  .invocations = 1024,
                  .workgroup = {1024, 1024, 1024},
                  .workgroups = {1073741824, 1073741824, 1073741824},
                  .push_constant_bytes = 4096,
                  .storage_buffers = 31,
                  .storage_range = UINT32_MAX,
                  .offset_alignment = 16,
                  .allocation_bytes = 8589934592,
                  .allocations = 1073741824},
       .subgroups = {32, 4, 32, false, 256, all_operations},
       .features = {.timeline = true,
                    .addresses = true,
                    .float16 = true,
                    .int8 = true,
                    .storage16 = true,
                    .storage8 = true,
                    .size_control = true},
       .heaps = {{8 * GiB, of_device}},
       .types = {{local, 0}, {local | host | cached, 0}, {local | host, 0}},
       .families = {{graphics, 1, 64, one}},
       .extensions = {budget, size_control, pumice::portability_subset_extension}},

      // The least that Vulkan 1.2 requires of a device, with the storage buffers that are needed.
      {.name = "Least device of Vulkan 1.2",
       .type = VK_PHYSICAL_DEVICE_TYPE_OTHER,
       .limits = {.storage_buffers = 8},
       .features = {.timeline = true},
       .heaps = {{1 * GiB, of_device}},
       .types = {{local, 0}, {host, 0}},
       .families = {{transfer, 1, 0, one}, {graphics, 1, 0, one}}},

      // Less than that: 4,096 workgroups along an axis. Made up.
      {.name = "Few workgroups",
       .type = discrete,
       .api_version = v13,
       .limits = {.shared_bytes = 32768,
                  .invocations = 256,
                  .workgroup = {256, 256, 64},
                  .workgroups = {4096, 4096, 4096},
                  .storage_buffers = 16},
       .subgroups = {32, 32, 32, true, 8, all_operations},
       .features = desktop(true, true, {{16, 16, 16}}),
       .heaps = {{1 * GiB, of_device}, {1 * GiB, 0}},
       .types = {{local, 0}, {host, 1}},
       .families = {{graphics, 1, 64, one}},
       .extensions = {dot_product, size_control, matrix}},
  };
}

} // namespace

const std::vector<ReportedDevice>& reported_devices() {
  static const std::vector<ReportedDevice> devices = all_devices();
  return devices;
}

const ReportedDevice& reported_device(const std::string& name) {
  const auto found = std::ranges::find(reported_devices(), name, &ReportedDevice::name);
  REQUIRE(found != reported_devices().end());
  return *found;
}
