#include "gpu/external_device.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace pumice {

namespace {

template <class Structure>
const Structure& as(const VkBaseInStructure& structure) {
  return reinterpret_cast<const Structure&>(structure);
}

// Adds the features that a structure enables. A feature is in the structure of its extension and in that of
// the Vulkan version that includes it; an application may use either.
void read_enabled(const VkBaseInStructure& structure, Capabilities& enabled) {
  switch (static_cast<uint32_t>(structure.sType)) { // older headers lack some of these
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
    enabled.storage_16bit |=
        as<VkPhysicalDeviceVulkan11Features>(structure).storageBuffer16BitAccess == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
    enabled.storage_16bit |=
        as<VkPhysicalDevice16BitStorageFeatures>(structure).storageBuffer16BitAccess == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
    const auto& v12 = as<VkPhysicalDeviceVulkan12Features>(structure);
    enabled.buffer_device_address |= v12.bufferDeviceAddress == VK_TRUE;
    enabled.timeline_semaphore |= v12.timelineSemaphore == VK_TRUE;
    enabled.storage_8bit |= v12.storageBuffer8BitAccess == VK_TRUE;
    enabled.float16 |= v12.shaderFloat16 == VK_TRUE;
    enabled.int8 |= v12.shaderInt8 == VK_TRUE;
    enabled.memory_model |= v12.vulkanMemoryModel && v12.vulkanMemoryModelDeviceScope;
    break;
  }
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
    enabled.buffer_device_address |=
        as<VkPhysicalDeviceBufferDeviceAddressFeatures>(structure).bufferDeviceAddress == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
    enabled.timeline_semaphore |=
        as<VkPhysicalDeviceTimelineSemaphoreFeatures>(structure).timelineSemaphore == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
    enabled.storage_8bit |=
        as<VkPhysicalDevice8BitStorageFeatures>(structure).storageBuffer8BitAccess == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES: {
    const auto& small = as<VkPhysicalDeviceShaderFloat16Int8Features>(structure);
    enabled.float16 |= small.shaderFloat16 == VK_TRUE;
    enabled.int8 |= small.shaderInt8 == VK_TRUE;
    break;
  }
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES: {
    const auto& model = as<VkPhysicalDeviceVulkanMemoryModelFeatures>(structure);
    enabled.memory_model |= model.vulkanMemoryModel && model.vulkanMemoryModelDeviceScope;
    break;
  }
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
    const auto& v13 = as<VkPhysicalDeviceVulkan13Features>(structure);
    enabled.integer_dot_product |= v13.shaderIntegerDotProduct == VK_TRUE;
    enabled.full_subgroups |= v13.subgroupSizeControl && v13.computeFullSubgroups;
    break;
  }
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
    enabled.integer_dot_product |=
        as<VkPhysicalDeviceShaderIntegerDotProductFeatures>(structure).shaderIntegerDotProduct == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES: {
    const auto& control = as<VkPhysicalDeviceSubgroupSizeControlFeatures>(structure);
    enabled.full_subgroups |= control.subgroupSizeControl && control.computeFullSubgroups;
    break;
  }
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR:
    enabled.cooperative_matrix |=
        as<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(structure).cooperativeMatrix == VK_TRUE;
    break;
  case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV: {
    const auto& matrix2 = as<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(structure);
    enabled.cooperative_matrix2 |= matrix2.cooperativeMatrixFlexibleDimensions == VK_TRUE;
    enabled.workgroup_matrices |= matrix2.cooperativeMatrixWorkgroupScope == VK_TRUE;
    break;
  }
  default:
    break;
  }
}

// Uses the queue family of the external device.
void read_queue_family(const VulkanTable& vk, const ExternalDevice& external, Capabilities& device) {
  uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  if (external.queue_family >= count) {
    device.problems.push_back(
        fmt::format("queue family {}: the device has {} of them", external.queue_family, count));
    return;
  }
  const VkQueueFamilyProperties& family = families[external.queue_family];
  if (!(family.queueFlags & VK_QUEUE_COMPUTE_BIT)) {
    device.problems.push_back(
        fmt::format("queue family {} does not run compute shaders", external.queue_family));
  }
  device.use_queue_family(external.queue_family, family);
  device.copy_queue_family = -1; // the same, or none
  if (!external.copy_queue_family) return;
  if (*external.copy_queue_family >= count) {
    device.problems.push_back(fmt::format("queue family {} for copies: the device has {} of them",
                                          *external.copy_queue_family, count));
  } else if (*external.copy_queue_family != external.queue_family) {
    device.copy_queue_family = static_cast<int>(*external.copy_queue_family);
  }
}

} // namespace

Capabilities enabled_capabilities(const VulkanTable& vk, const ExternalDevice& external,
                                  const Capabilities& physical) {
  Capabilities device = physical;
  Capabilities enabled; // only the features are set
  for (auto* next = static_cast<const VkBaseInStructure*>(external.features); next; next = next->pNext) {
    read_enabled(*next, enabled);
  }
  if (device.timeline_semaphore && !enabled.timeline_semaphore) {
    device.problems.push_back(
        "timeline semaphores (timelineSemaphore) are not enabled on the application's device");
  }
  read_queue_family(vk, external, device);
  const auto has = [&](std::string_view extension) {
    return std::ranges::any_of(external.extensions, [&](const char* name) { return name == extension; });
  };
  const auto offers = [&](const char* function) {
    return vk.vkGetDeviceProcAddr(external.device, function) != nullptr;
  };
  const bool before_12 = !offers("vkWaitSemaphores"), before_13 = !offers("vkQueueSubmit2");
  if (before_12 && !has(VK_KHR_SPIRV_1_4_EXTENSION_NAME)) {
    device.problems.push_back(
        "VK_KHR_spirv_1_4 is not enabled on the application's device, whose instance was "
        "made for Vulkan 1.1: pumice_features_create names what is needed");
  }
  device.spirv_1_5 = !before_12;
  device.host_memory_import &= has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  device.buffer_device_address &= enabled.buffer_device_address;
  device.storage_16bit &= enabled.storage_16bit;
  device.storage_8bit &= enabled.storage_8bit;
  device.float16 &= enabled.float16;
  device.int8 &= enabled.int8;
  device.memory_model &= enabled.memory_model;
  device.full_subgroups &= enabled.full_subgroups;
  device.subgroup_size_control &= device.full_subgroups;
  device.integer_dot_product &=
      enabled.integer_dot_product && has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  device.cooperative_matrix &= enabled.cooperative_matrix && has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  device.cooperative_matrix2 &= device.cooperative_matrix && enabled.cooperative_matrix2 &&
                                has(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME) && !before_13; // SPIR-V 1.6
  device.workgroup_matrices &= device.cooperative_matrix2 && enabled.workgroup_matrices;
  return device;
}

} // namespace pumice
