#pragma once

#include <memory>

#include "api/pumice.h"
#include "gpu/instance.h"

// A program that renders with Vulkan itself: an instance, a device and a queue of its own, and a command
// buffer at a time. Pumice gets there through `get_instance_proc_addr`, which may be another one than its
// own.
class ExternalVulkan {
public:
  ExternalVulkan(PFN_vkGetInstanceProcAddr get_instance_proc_addr, bool validate);
  ~ExternalVulkan();
  ExternalVulkan(const ExternalVulkan&) = delete;
  ExternalVulkan& operator=(const ExternalVulkan&) = delete;

  pumice_vulkan vulkan() const { return vulkan_; }

  // The command buffer, in the recording state.
  VkCommandBuffer begin();
  // Submits it and waits until it has run.
  void run();

private:
  std::shared_ptr<pumice::Instance> instance_;
  pumice::VulkanTable table_;
  VkPhysicalDeviceVulkan12Features features_{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  pumice_vulkan vulkan_ = {sizeof(pumice_vulkan)};
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};
