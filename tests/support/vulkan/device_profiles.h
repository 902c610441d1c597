#pragma once

#include <array>
#include <string>
#include <vector>

#include "gpu/capabilities.h"
#include "gpu/vulkan_table.h"

// Limits of VkPhysicalDeviceLimits and its relatives; what is not set is the least that Vulkan 1.2 requires.
struct ReportedLimits {
  uint32_t shared_bytes = 16384;
  uint32_t invocations = 128; // of a workgroup
  std::array<uint32_t, 3> workgroup = {128, 128, 64};
  std::array<uint32_t, 3> workgroups = {65535, 65535, 65535};
  uint32_t push_constant_bytes = 128;
  uint32_t storage_buffers = 4; // of a shader
  uint32_t storage_range = 1u << 27;
  uint64_t offset_alignment = 256;
  uint64_t allocation_bytes = uint64_t{1} << 30;
  uint32_t allocations = 4096;
  float timestamp_period_ns = 1;
};

struct ReportedSubgroups {
  uint32_t size = 1;
  uint32_t least = 0, greatest = 0; // 0: the device does not say, because it knows no other sizes
  bool required = false;            // a compute shader can ask for one of them
  uint32_t most = UINT32_MAX;       // subgroups of a workgroup for which a size is asked
  VkSubgroupFeatureFlags operations = VK_SUBGROUP_FEATURE_BASIC_BIT;
};

struct ReportedFeatures {
  bool timeline = false, addresses = false, float16 = false, int8 = false;
  bool storage16 = false, storage8 = false;
  bool memory_model = false;                      // with device scope
  bool size_control = false;                      // of subgroups, with full subgroups
  bool dot = false, fast_dot = false;             // integer dot products, and by an instruction
  std::vector<pumice::MatrixShape> matrices = {}; // of f16 with sums in f32, multiplied by a subgroup
};

// A device as a public report describes it.
struct ReportedDevice {
  std::string name;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  uint32_t vendor = 0;
  uint32_t chip = 0; // VkPhysicalDeviceProperties::deviceID
  VkDriverId driver = VK_DRIVER_ID_MAX_ENUM;
  uint32_t driver_build = 0;
  std::string driver_info = {};
  uint32_t api_version = VK_API_VERSION_1_2;
  ReportedLimits limits;
  ReportedSubgroups subgroups;
  ReportedFeatures features;
  std::vector<VkMemoryHeap> heaps;
  std::vector<VkMemoryType> types;
  std::vector<VkQueueFamilyProperties> families;
  std::vector<const char*> extensions;
};

// Devices of all kinds, which no machine has together.
const std::vector<ReportedDevice>& reported_devices();
// The one with this name.
const ReportedDevice& reported_device(const std::string& name);
