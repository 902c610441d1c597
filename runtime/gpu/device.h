#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpu/capabilities.h"
#include "gpu/external_device.h"
#include "gpu/instance.h"
#include "gpu/memory.h"
#include "gpu/queue.h"

namespace pumice {

// The queue's priority among all programs that use the device (VkQueueGlobalPriority).
enum class GlobalPriority { standard, low, medium, high, realtime };

// A driver for processors compiles kernels while they wait in the queue, and shares the processors with other
// programs.
inline constexpr double usual_patience = 60, cpu_patience = 300; // seconds

struct DeviceOptions {
  uint64_t memory_limit = 0; // most bytes that are allocated at the same time; 0: no limit
  Allocator allocator;       // empty: memory comes from the driver
  // Seconds without the end of any submission after which the device hangs; 0: usual_patience, or
  // cpu_patience on a processor.
  double patience = 0;
  // Priorities of the queue that create() makes. An application's queue keeps its own.
  float queue_priority = 1; // 0 to 1, among the queues of the same device
  GlobalPriority global_priority = GlobalPriority::standard;
  // Asks a processor for its cooperative matrices too. Kernels with them are only taken by name there.
  bool processor_matrices = false;
};

// A logical device with a queue for all work, and where the device has one, a queue that only copies. Safe to
// use from several threads. Everything made from it keeps it alive.
class Device : public std::enable_shared_from_this<Device> {
public:
  static Result<std::shared_ptr<Device>>
  create(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options = {});
  // Uses a device that the application owns. Its queue is shared; only objects that are made here are
  // destroyed.
  static Result<std::shared_ptr<Device>> adopt(const ExternalDevice& external, VulkanTable table = {},
                                               const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const VulkanTable& table() const { return table_; }
  VkDevice handle() const { return handle_; }
  VkInstance instance() const { return instance_->handle(); }
  const Capabilities& capabilities() const { return capabilities_; }
  const VkPhysicalDeviceMemoryProperties& memory_properties() const { return memory_; }
  // Options that could not be met, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  Queue& queue() { return queue_; }
  // Uploads go here, so that they do not wait for kernels, nor kernels for them. The same queue as queue()
  // where the device has no other, or the application gives no other. Another queue's work sees what is
  // copied here after a submission there that waits for it (Queue::at).
  Queue& copies() { return copies_.is_open() ? copies_ : queue_; }

  // What queue() does.
  Result<TimelinePoint> submit(std::span<const VkCommandBuffer> commands, const SubmitSync& sync = {}) {
    return queue_.submit(commands, sync);
  }
  Status wait(TimelinePoint point) { return queue_.wait(point); }
  Result<TimelinePoint> completed() const { return queue_.completed(); }

  // Whether it is the application's, which may submit what it is given later than the call that waits for it.
  bool is_adopted() const { return !owned_; }

  double patience() const { return patience_; } // seconds
  // Whether a wait has lost its patience. Nothing is submitted or waited for any more, and what the device
  // may still use is not destroyed: Vulkan would wait for it, and has no way to stop it.
  bool hangs() const { return hangs_; }
  void give_up() { hangs_ = true; }
  Error hang() const;

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

  // Memory from the application's allocator or the driver. An error if it would exceed the limit.
  Result<DeviceMemory> allocate(const MemoryRequest& request);
  // Memory of the host as the device's, which is not counted. Needs can_import(); free() lets go of it.
  Result<DeviceMemory> import(std::span<std::byte> bytes, uint32_t memory_type);
  // The host's address of memory that was requested as host_visible; null if the application's allocator
  // cannot map it.
  Result<std::byte*> map(const DeviceMemory& memory);
  // Whether memory comes from the application, which may use the rest of the same allocation.
  bool has_allocator() const { return static_cast<bool>(allocator_.allocate); }
  bool can_map() const { return !allocator_.allocate || allocator_.map; }
  // Whether buffers can have memory of the host (Buffer::import). Not where all memory comes from the
  // application.
  bool can_import() const {
    return capabilities_.host_memory_import && !has_allocator() && table_.vkGetMemoryHostPointerPropertiesEXT;
  }
  void free(const DeviceMemory& memory, uint64_t bytes);
  // Bytes of device memory that are allocated now, and the most there have ever been.
  uint64_t allocated_bytes() const { return memory_count_.allocated(); }
  uint64_t peak_bytes() const { return memory_count_.peak(); }
  MemoryReport memory() const;

private:
  Device(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options);
  static Status check(const DeviceOptions& options);
  void ask_for_matrices(const DeviceOptions& options);
  Status make_device(const DeviceOptions& options);
  Status open_queues();
  Result<DeviceMemory> allocate_from_application(const MemoryRequest& request);
  Result<DeviceMemory> allocate_from_driver(const MemoryRequest& request);
  HeapBudget heap_budget() const;
  void set_name_of(VkObjectType type, uint64_t handle, std::string_view name) const;

  std::shared_ptr<Instance> instance_;
  VulkanTable table_;
  Capabilities capabilities_;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  Queue queue_{*this}, copies_{*this};
  bool owned_ = true;
  double patience_; // seconds
  std::atomic<bool> hangs_ = false;
  Allocator allocator_; // the application's; empty where the driver allocates
  MemoryCount memory_count_;
  std::vector<std::string> notes_;
};

} // namespace pumice
