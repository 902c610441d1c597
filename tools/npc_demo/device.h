#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <pumice/pumice.h>

#include "instance.h"

namespace npc {

// The demo's VkDevice with one queue for drawing and computing. Pumice uses the same device and queue.
class Device {
public:
  // `surface` is null if there is no window. `name` is a part of the device's name; empty: the best device.
  Device(const Instance& instance, VkSurfaceKHR surface, const std::string& name);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Instance& instance() const { return instance_; }
  const VulkanFunctions& functions() const { return vk_; }
  VkPhysicalDevice physical() const { return physical_; }
  VkDevice handle() const { return device_; }
  uint32_t queue_family() const { return family_; }
  VkQueue queue() const { return queue_; }
  // In Vulkan, only one thread at a time may use a queue. Pumice uses this queue too, from several threads.
  std::mutex& queue_lock() const { return queue_lock_; }

  // The enabled features and extensions. The features are the pNext chain of VkDeviceCreateInfo.
  const void* features() const;
  const std::vector<const char*>& extensions() const { return extensions_; }

  const char* name() const { return properties_.deviceName; }
  // Microseconds of one tick of a timestamp; 0 if the queue has no timestamps.
  double tick_us() const { return tick_us_; }
  uint64_t tick_mask() const { return tick_mask_; } // the valid bits of a timestamp
  // A memory type that is in `bits` and has all `flags`. Throws a Failure if there is none.
  uint32_t memory_type(uint32_t bits, VkMemoryPropertyFlags flags) const;
  // Waits until the device is idle.
  void wait() const;

private:
  void choose(VkSurfaceKHR surface, const std::string& name);
  void enable_features(bool swapchain);
  void create();

  const Instance& instance_;
  VulkanFunctions vk_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  uint32_t family_ = 0;
  struct Destroy {
    void operator()(pumice_features* features) const { pumice_features_destroy(features); }
  };
  std::unique_ptr<pumice_features, Destroy> features_;
  std::vector<const char*> extensions_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  mutable std::mutex queue_lock_;
  double tick_us_ = 0;
  uint64_t tick_mask_ = 0;
};

} // namespace npc
