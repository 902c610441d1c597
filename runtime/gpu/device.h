#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "gpu/capabilities.h"
#include "gpu/host_device.h"
#include "gpu/instance.h"

namespace pumice {

// A logical device with one compute queue and a timeline that counts its submissions. Safe to use from
// several threads. Everything made from it keeps it alive.
class Device : public std::enable_shared_from_this<Device> {
public:
  static Result<std::shared_ptr<Device>> create(std::shared_ptr<Instance> instance,
                                                const Capabilities& chosen);
  // One that the application owns: its queue is shared, nothing but what is made here is destroyed here.
  static Result<std::shared_ptr<Device>> adopt(const HostDevice& host, VulkanTable table = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const VulkanTable& table() const { return table_; }
  VkDevice handle() const { return handle_; }
  const Capabilities& capabilities() const { return capabilities_; }
  const VkPhysicalDeviceMemoryProperties& memory_properties() const { return memory_; }

  // Submits command buffers in order, after everything submitted before. Returns the timeline value that is
  // reached when they have finished.
  Result<uint64_t> submit(std::span<const VkCommandBuffer> commands);
  // Waits until the timeline has reached `value`. Also where this fails the device has stopped: what it
  // worked on may go.
  Status wait(uint64_t value);
  // The timeline value reached so far.
  Result<uint64_t> completed() const;
  // The value of the last submission; waiting for it waits for everything.
  uint64_t last_submitted() const { return last_value_; }

  // Bytes of device memory that are allocated now, and the most there have ever been.
  uint64_t allocated_bytes() const { return allocated_bytes_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  void count_allocation(uint64_t bytes);
  void count_release(uint64_t bytes) { allocated_bytes_ -= bytes; }

private:
  Device(std::shared_ptr<Instance> instance, const Capabilities& chosen);
  Status make_timeline();
  // A call that uses the queue, which no other thread uses meanwhile.
  template <class Call>
  VkResult with_queue(const Call& call) {
    std::lock_guard lock(queue_mutex_);
    if (lock_queue_) lock_queue_();
    const VkResult result = call();
    if (unlock_queue_) unlock_queue_();
    return result;
  }

  std::shared_ptr<Instance> instance_;
  VulkanTable table_;
  Capabilities capabilities_;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  bool owned_ = true;
  std::function<void()> lock_queue_, unlock_queue_; // the application's; empty where the queue is our own
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  std::atomic<uint64_t> last_value_ = 0;
  std::atomic<uint64_t> allocated_bytes_ = 0;
  std::atomic<uint64_t> peak_bytes_ = 0;
};

} // namespace pumice
