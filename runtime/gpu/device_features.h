#pragma once

#include <vector>

#include "base/result.h"
#include "gpu/capabilities.h"

namespace pumice {

// The features and extensions that a VkDevice is made with for Pumice: only what kernels use, because
// features cost some drivers speed.
class DeviceFeatures {
public:
  // `chain`: an application's VkDeviceCreateInfo.pNext, or null. Features whose structures it has already are
  // switched on there, because no structure may occur twice; it must outlive this object.
  explicit DeviceFeatures(const Capabilities& chosen, void* chain = nullptr);
  DeviceFeatures(const DeviceFeatures&) = delete; // its structures point to each other
  DeviceFeatures& operator=(const DeviceFeatures&) = delete;

  // For VkDeviceCreateInfo.pNext: the structures of this object, and then those of `chain`.
  const void* chain() const { return first_; }
  const std::vector<const char*>& extensions() const { return extensions_; }

private:
  template <class Structure>
  Structure* find(VkStructureType type);
  template <class Structure>
  Structure& structure(Structure& own);

  void* application_; // the application's chain
  void* first_;       // of the whole chain
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceBufferDeviceAddressFeatures address_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES};
  VkPhysicalDevice16BitStorageFeatures storage_16bit_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features float16_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures control_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2_{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
  std::vector<const char*> extensions_;
};

// An error that says why the runtime cannot use a device.
Status check_usable(const Capabilities& device);

// What kernels lose because features of a physical device are not switched on in the application's device: a
// sentence for each feature that costs something on this device.
std::vector<std::string> what_is_lost(const Capabilities& physical, const Capabilities& enabled);

} // namespace pumice
