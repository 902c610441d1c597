#pragma once

#include <functional>
#include <span>

#include "gpu/capabilities.h"

namespace pumice {

// A Vulkan device that the application owns, and what may be used of it. The handles outlive everything that
// is made from them.
struct ExternalDevice {
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr; // of the loader that made the instance
  VkInstance instance = VK_NULL_HANDLE;                       // made for Vulkan 1.2 or newer
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  uint32_t queue_family = 0;
  VkQueue queue = VK_NULL_HANDLE;
  // What the device was made with: VkDeviceCreateInfo's pNext and its extensions. What is not among them is
  // not used, whatever the physical device has.
  const void* features = nullptr;
  std::span<const char* const> extensions;
  // Called around every use of the queue, by the thread that uses it; both or neither.
  std::function<void()> lock_queue;
  std::function<void()> unlock_queue;
};

// What such a device can do; what it lacks is among its problems.
Capabilities read_capabilities(const VulkanTable& vk, const ExternalDevice& host);

} // namespace pumice
