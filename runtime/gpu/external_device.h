#pragma once

#include <functional>
#include <optional>
#include <span>

#include "gpu/capabilities.h"
#include "gpu/queue.h"

namespace pumice {

// A Vulkan device that the application owns. The handles must outlive everything that is made from them.
struct ExternalDevice {
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr; // from the loader that made the instance
  VkInstance instance = VK_NULL_HANDLE;                       // made with apiVersion 1.1 or newer
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  uint32_t queue_family = 0;
  VkQueue queue = VK_NULL_HANDLE; // may be null with `submit`
  // Weights are copied by this queue; null: by `queue`, or with `submit` where there is a family.
  VkQueue copy_queue = VK_NULL_HANDLE;
  std::optional<uint32_t> copy_queue_family;
  // VkDeviceCreateInfo's pNext and extensions, as the device was made with. Features and extensions that are
  // not among them are not used, even if the physical device has them.
  const void* features = nullptr;
  std::span<const char* const> extensions;
  // Called before and after every use of the queues, by the thread that uses it. Set both or neither.
  std::function<void()> lock_queue;
  std::function<void()> unlock_queue;
  // Takes what Pumice would submit to a queue of that family, which the application submits when it likes, in
  // the order of the calls. Nothing else uses the queues then.
  std::function<Status(const Submission&, uint32_t family)> submit;
};

// The capabilities of such a device, of those of its physical one. `problems` says what it lacks.
Capabilities enabled_capabilities(const VulkanTable& vk, const ExternalDevice& external,
                                  const Capabilities& physical);

} // namespace pumice
