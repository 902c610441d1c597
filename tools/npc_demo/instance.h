#pragma once

#include <atomic>
#include <vector>

#include "vulkan_functions.h"

namespace npc {

// The demo's VkInstance, with the validation layers if they are asked for.
class Instance {
public:
  // `loader` is the vkGetInstanceProcAddr of the loader. `extensions` are the ones that a window needs.
  Instance(PFN_vkGetInstanceProcAddr loader, const std::vector<const char*>& extensions, bool validate);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const VulkanFunctions& functions() const { return vk_; }
  VkInstance handle() const { return instance_; }
  int validation_messages() const { return messages_; }

private:
  void watch();

  VulkanFunctions vk_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::atomic<int> messages_ = 0;
};

} // namespace npc
