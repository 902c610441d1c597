#include "support/command/reported_answers.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace {

template <class Structure, class Base>
Structure& as(Base* structure) {
  return *reinterpret_cast<Structure*>(structure);
}

// Structures of Vulkan 1.3 and of extensions may only be in a chain if the device knows them.
bool knows(const ReportedDevice& device, VkStructureType type) {
  const auto in_13 = [&](const char* extension) {
    return device.api_version >= VK_API_VERSION_1_3 || has_extension(device, extension);
  };
  if (type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR)
    return has_extension(device, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV ||
      type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV)
    return has_extension(device, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
  switch (type) {
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV:
    return has_extension(device, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD:
    return has_extension(device, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD:
    return has_extension(device, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM:
    return has_extension(device, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES:
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES:
    return in_13(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES:
    return in_13(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
    return device.api_version >= VK_API_VERSION_1_3;
  default:
    return true;
  }
}

void check_known(const ReportedDevice& device, VkStructureType type, std::vector<std::string>& wrong) {
  if (knows(device, type)) return;
  wrong.push_back(fmt::format("a chain has structure {}, which {} does not know", static_cast<int64_t>(type),
                              device.name));
}

void answer_limits(const ReportedLimits& limits, VkPhysicalDeviceLimits& answer) {
  answer.maxComputeSharedMemorySize = limits.shared_bytes;
  answer.maxComputeWorkGroupInvocations = limits.invocations;
  std::ranges::copy(limits.workgroup, answer.maxComputeWorkGroupSize);
  std::ranges::copy(limits.workgroups, answer.maxComputeWorkGroupCount);
  answer.maxPushConstantsSize = limits.push_constant_bytes;
  answer.maxPerStageDescriptorStorageBuffers = answer.maxDescriptorSetStorageBuffers = limits.storage_buffers;
  answer.maxStorageBufferRange = limits.storage_range;
  answer.minStorageBufferOffsetAlignment = limits.offset_alignment;
  answer.maxMemoryAllocationCount = limits.allocations;
  answer.timestampPeriod = limits.timestamp_period_ns;
}

// A feature as a query answers it and as a VkDevice is made with it.
struct Feature {
  const char* name;
  bool ReportedFeatures::*reported;
  VkStructureType structure;
  size_t offset; // of its VkBool32
};

#define FEATURE(reported, type, structure, name)                                                             \
  { #name, &ReportedFeatures::reported, type, offsetof(structure, name) }
constexpr Feature features[] = {
    FEATURE(storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
            VkPhysicalDevice8BitStorageFeatures, storageBuffer8BitAccess),
    FEATURE(storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
            VkPhysicalDevice16BitStorageFeatures, storageBuffer16BitAccess),
    FEATURE(timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
            VkPhysicalDeviceTimelineSemaphoreFeatures, timelineSemaphore),
    FEATURE(addresses, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
            VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress),
    FEATURE(float16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
            VkPhysicalDeviceShaderFloat16Int8Features, shaderFloat16),
    FEATURE(int8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
            VkPhysicalDeviceShaderFloat16Int8Features, shaderInt8),
    FEATURE(memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
            VkPhysicalDeviceVulkanMemoryModelFeatures, vulkanMemoryModel),
    FEATURE(memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
            VkPhysicalDeviceVulkanMemoryModelFeatures, vulkanMemoryModelDeviceScope),
    FEATURE(size_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
            VkPhysicalDeviceSubgroupSizeControlFeatures, subgroupSizeControl),
    FEATURE(size_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
            VkPhysicalDeviceSubgroupSizeControlFeatures, computeFullSubgroups),
    FEATURE(dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
            VkPhysicalDeviceShaderIntegerDotProductFeatures, shaderIntegerDotProduct),
};
#undef FEATURE

bool has_matrices(const ReportedFeatures& reported) {
  return !reported.matrices.empty();
}

} // namespace

bool has_extension(const ReportedDevice& device, const std::string& name) {
  return std::ranges::any_of(device.extensions, [&](const char* extension) { return name == extension; });
}

void answer_properties(const ReportedDevice& device, VkPhysicalDeviceProperties& properties) {
  properties = {};
  std::strncpy(properties.deviceName, device.name.c_str(), sizeof properties.deviceName - 1);
  properties.deviceType = device.type;
  properties.vendorID = device.vendor;
  properties.deviceID = device.chip;
  properties.driverVersion = device.driver_build;
  properties.apiVersion = device.api_version;
  answer_limits(device.limits, properties.limits);
}

void answer_properties(const ReportedDevice& device, VkPhysicalDeviceProperties2& properties,
                       std::vector<std::string>& wrong) {
  answer_properties(device, properties.properties);
  for (auto* next = static_cast<VkBaseOutStructure*>(properties.pNext); next; next = next->pNext) {
    check_known(device, next->sType, wrong);
    switch (next->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
      as<VkPhysicalDeviceMaintenance3Properties>(next).maxMemoryAllocationSize =
          device.limits.allocation_bytes;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES: {
      auto& subgroups = as<VkPhysicalDeviceSubgroupProperties>(next);
      subgroups.subgroupSize = device.subgroups.size;
      subgroups.supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
      subgroups.supportedOperations = device.subgroups.operations;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES: {
      auto& driver = as<VkPhysicalDeviceDriverProperties>(next);
      driver.driverID = device.driver;
      std::strncpy(driver.driverInfo, device.driver_info.c_str(), sizeof driver.driverInfo - 1);
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT:
      as<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(next).minImportedHostPointerAlignment = 4096;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES: {
      auto& control = as<VkPhysicalDeviceSubgroupSizeControlProperties>(next);
      control.minSubgroupSize = device.subgroups.least;
      control.maxSubgroupSize = device.subgroups.greatest;
      control.maxComputeWorkgroupSubgroups = device.subgroups.most;
      control.requiredSubgroupSizeStages = device.subgroups.required ? VK_SHADER_STAGE_COMPUTE_BIT : 0;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES:
      as<VkPhysicalDeviceShaderIntegerDotProductProperties>(next)
          .integerDotProduct4x8BitPackedSignedAccelerated = device.features.fast_dot;
      break;
    default:
      break;
    }
  }
}

void answer_features(const ReportedDevice& device, VkPhysicalDeviceFeatures2& answer,
                     std::vector<std::string>& wrong) {
  for (auto* next = static_cast<VkBaseOutStructure*>(answer.pNext); next; next = next->pNext) {
    check_known(device, next->sType, wrong);
    for (const Feature& feature : features) {
      if (next->sType != feature.structure) continue;
      const VkBool32 has = device.features.*feature.reported;
      std::memcpy(reinterpret_cast<std::byte*>(next) + feature.offset, &has, sizeof(has));
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR) {
      as<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(next).cooperativeMatrix =
          has_matrices(device.features);
    }
  }
}

void answer_memory(const ReportedDevice& device, const std::vector<uint64_t>& used,
                   VkPhysicalDeviceMemoryProperties2& answer) {
  VkPhysicalDeviceMemoryProperties& memory = answer.memoryProperties;
  memory.memoryTypeCount = static_cast<uint32_t>(device.types.size());
  memory.memoryHeapCount = static_cast<uint32_t>(device.heaps.size());
  std::ranges::copy(device.types, memory.memoryTypes);
  std::ranges::copy(device.heaps, memory.memoryHeaps);
  for (auto* next = static_cast<VkBaseOutStructure*>(answer.pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    auto& budget = as<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(next);
    for (size_t heap = 0; heap < device.heaps.size(); ++heap) {
      budget.heapBudget[heap] = device.heaps[heap].size / 10 * 9;
      budget.heapUsage[heap] = used[heap];
    }
  }
}

ReportedFeatures enabled_features(const ReportedDevice& device, const void* chain,
                                  std::vector<std::string>& wrong) {
  ReportedFeatures enabled;
  const auto lacks = [&](const char* name) {
    wrong.push_back(
        fmt::format("vkCreateDevice: {} is switched on, and {} does not have it", name, device.name));
  };
  for (auto* next = static_cast<const VkBaseInStructure*>(chain); next; next = next->pNext) {
    check_known(device, next->sType, wrong);
    for (const Feature& feature : features) {
      if (next->sType != feature.structure) continue;
      VkBool32 on = VK_FALSE;
      std::memcpy(&on, reinterpret_cast<const std::byte*>(next) + feature.offset, sizeof(on));
      enabled.*feature.reported |= on == VK_TRUE;
      if (on && !(device.features.*feature.reported)) lacks(feature.name);
    }
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR) continue;
    if (!as<const VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(next).cooperativeMatrix) continue;
    enabled.matrices = device.features.matrices;
    if (!has_matrices(enabled)) lacks("cooperativeMatrix");
  }
  return enabled;
}

std::string missing_for(uint32_t capability, const ReportedDevice& device, const ReportedFeatures& enabled) {
  const auto need = [](bool has, const char* name) { return has ? std::string() : std::string(name); };
  const auto operation = [&](VkSubgroupFeatureFlagBits bit, const char* name) {
    return need(device.subgroups.operations & bit, name);
  };
  switch (capability) {
  case 1: // Shader
    return "";
  case 9:
    return need(enabled.float16, "shaderFloat16");
  case 39:
    return need(enabled.int8, "shaderInt8");
  case 61:
    return operation(VK_SUBGROUP_FEATURE_BASIC_BIT, "subgroups");
  case 62:
    return operation(VK_SUBGROUP_FEATURE_VOTE_BIT, "votes of subgroups");
  case 63:
    return operation(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, "arithmetic of subgroups");
  case 64:
    return operation(VK_SUBGROUP_FEATURE_BALLOT_BIT, "ballots of subgroups");
  case 65:
    return operation(VK_SUBGROUP_FEATURE_SHUFFLE_BIT, "shuffles of subgroups");
  case 66:
    return operation(VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT, "relative shuffles of subgroups");
  case 4433:
    return need(enabled.storage16, "storageBuffer16BitAccess");
  case 4448:
    return need(enabled.storage8, "storageBuffer8BitAccess");
  case 5345:
  case 5346:
    return need(enabled.memory_model, "vulkanMemoryModel");
  case 5347:
    return need(enabled.addresses, "bufferDeviceAddress");
  case 6016:
  case 6017:
  case 6018:
  case 6019:
    return need(enabled.dot, "shaderIntegerDotProduct");
  case 6022:
    return need(has_matrices(enabled), "cooperativeMatrix");
  default:
    return fmt::format("capability {}, which no device of these tests has", capability);
  }
}
