#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "instance.h"

namespace npc {

// The demo's VkDevice with one queue for drawing and computing, which Pumice shares.
class Device {
public:
  // `surface` may be null: then nothing is ever shown. `wish` is a part of a device's name; empty: the best.
  Device(const Instance& instance, VkSurfaceKHR surface, const std::string& wish);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Instance& instance() const { return instance_; }
  const VulkanFunctions& functions() const { return vk_; }
  VkPhysicalDevice physical() const { return physical_; }
  VkDevice handle() const { return device_; }
  uint32_t queue_family() const { return family_; }
  VkQueue queue() const { return queue_; }
  // Vulkan lets one thread at a time use a queue. Pumice uses this one too, from whatever threads it runs on.
  std::mutex& queue_lock() const { return queue_lock_; }

  // What the device was made with: the chain that VkDeviceCreateInfo began with, and its extensions.
  const void* features() const;
  const std::vector<const char*>& extensions() const { return extensions_; }

  const char* name() const { return properties_.deviceName; }
  // Microseconds of a timestamp's tick; 0 where the queue has no timestamps.
  double tick_us() const { return tick_us_; }
  uint64_t tick_mask() const { return tick_mask_; } // a timestamp's bits that mean something
  // A type of those in `bits` that has all `flags`.
  uint32_t memory_type(uint32_t bits, VkMemoryPropertyFlags flags) const;
  // Until the device has nothing to do.
  void wait() const;

private:
  struct Features;

  void choose(VkSurfaceKHR surface, const std::string& wish);
  void enable_features(bool swapchain);
  void create();

  const Instance& instance_;
  VulkanFunctions vk_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  uint32_t family_ = 0;
  std::unique_ptr<Features> features_;
  std::vector<const char*> extensions_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  mutable std::mutex queue_lock_;
  double tick_us_ = 0;
  uint64_t tick_mask_ = 0;
};

} // namespace npc
