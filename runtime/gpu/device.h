#pragma once

#include <atomic>
#include <compare>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpu/capabilities.h"
#include "gpu/external_device.h"
#include "gpu/instance.h"
#include "gpu/memory.h"

namespace pumice {

// Beside other programs, as VkQueueGlobalPriority has them.
enum class GlobalPriority { standard, low, medium, high, realtime };

struct DeviceOptions {
  uint64_t memory_limit = 0; // most bytes to be allocated at a time; 0: as many as there are
  Allocator allocator;       // empty: the driver
  // Of a device's own queue. An application's has the priorities that it was made with.
  float queue_priority = 1; // 0 to 1, beside other queues of the same device
  GlobalPriority global_priority = GlobalPriority::standard;
};

// A semaphore with the value that a submission waits for or signals; 0 for a binary one.
struct SemaphoreValue {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;
};

// What a submission waits for and signals, beside what every one does.
struct SubmitSync {
  std::span<const SemaphoreValue> wait;
  std::span<const SemaphoreValue> signal;

  bool empty() const { return wait.empty() && signal.empty(); }
};

// A point on a device's timeline, which one submission reaches when it has finished. Points are reached in
// their order. The first one, 0, has always been reached.
struct TimelinePoint {
  uint64_t value = 0;

  auto operator<=>(const TimelinePoint&) const = default;
};

// A logical device with one compute queue and a timeline that counts its submissions. Safe to use from
// several threads. Everything made from it keeps it alive.
class Device : public std::enable_shared_from_this<Device> {
public:
  static Result<std::shared_ptr<Device>>
  create(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options = {});
  // One that the application owns: its queue is shared, nothing but what is made here is destroyed here.
  static Result<std::shared_ptr<Device>> adopt(const ExternalDevice& host, VulkanTable table = {},
                                               const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const VulkanTable& table() const { return table_; }
  VkDevice handle() const { return handle_; }
  VkInstance instance() const { return instance_->handle(); }
  const Capabilities& capabilities() const { return capabilities_; }
  const VkPhysicalDeviceMemoryProperties& memory_properties() const { return memory_; }
  // What was asked for and could not be had, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  VkQueue queue() const { return queue_; }
  // Held around every use of the queue that is not made through submit().
  void lock_queue();
  void unlock_queue();

  // Submits command buffers, none will do, in order, after everything submitted before. Returns the point
  // that is reached when they have finished.
  Result<TimelinePoint> submit(std::span<const VkCommandBuffer> commands, const SubmitSync& sync = {});
  // Waits until the timeline has reached the point. Also where this fails the device has stopped: what it
  // worked on may go.
  Status wait(TimelinePoint point);
  // The last point that has been reached so far.
  Result<TimelinePoint> completed() const;

  // Names an object for captures and validation messages, where the instance has VK_EXT_debug_utils.
  template <class Handle>
  void set_name(VkObjectType type, Handle handle, std::string_view name) const {
    if (!table_.vkSetDebugUtilsObjectNameEXT || name.empty()) return;
    if constexpr (std::is_pointer_v<Handle>) {
      set_name_of(type, reinterpret_cast<uintptr_t>(handle), name);
    } else {
      set_name_of(type, handle, name);
    }
  }

  // Memory from the application's allocator, or the driver, as far as the limit goes.
  Result<DeviceMemory> allocate(const MemoryRequest& request);
  // Where the host sees it, which the request has asked for; null where the application does not let it.
  Result<std::byte*> map(const DeviceMemory& memory);
  // Whether memory comes from the application, which may have other things in it.
  bool has_allocator() const { return static_cast<bool>(allocator_.allocate); }
  bool can_map() const { return !allocator_.allocate || allocator_.map; }
  void free(const DeviceMemory& memory, uint64_t bytes);
  // Bytes of device memory that are allocated now, and the most there have ever been.
  uint64_t allocated_bytes() const { return memory_count_.allocated(); }
  uint64_t peak_bytes() const { return memory_count_.peak(); }
  MemoryReport memory() const;

private:
  Device(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options);
  static Status check(const DeviceOptions& options);
  Status make_device(const DeviceOptions& options);
  Status make_timeline();
  Result<DeviceMemory> allocate_from_application(const MemoryRequest& request);
  Result<DeviceMemory> allocate_from_driver(const MemoryRequest& request);
  HeapBudget heap_budget() const;
  void set_name_of(VkObjectType type, uint64_t handle, std::string_view name) const;
  // A call that uses the queue, which no other thread uses meanwhile.
  template <class Call>
  VkResult with_queue(const Call& call) {
    lock_queue();
    const VkResult result = call();
    unlock_queue();
    return result;
  }

  std::shared_ptr<Instance> instance_;
  VulkanTable table_;
  Capabilities capabilities_;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  bool owned_ = true;
  std::function<void()> host_lock_, host_unlock_; // the application's; empty where the queue is our own
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  std::atomic<uint64_t> last_value_ = 0;
  Allocator allocator_; // the application's; empty where the driver allocates
  MemoryCount memory_count_;
  std::vector<std::string> notes_;
};

} // namespace pumice
