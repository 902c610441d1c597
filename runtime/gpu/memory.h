#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "base/result.h"
#include "gpu/vulkan_table.h"

namespace pumice {

// The size of one allocation of many that belong together. It is so large that a driver's limit on the number
// of allocations does not matter, and so small that a device finds room for it.
constexpr uint64_t preferred_allocation_bytes = uint64_t{512} << 20;

// The memory that a buffer needs.
struct MemoryRequest {
  uint64_t bytes = 0;
  uint64_t alignment = 1;        // of the offset
  uint32_t memory_type_bits = 0; // the memory types that are allowed
  uint32_t memory_type = 0;      // the preferred one of them
  bool host_visible = false;   // these types are host-visible and host-coherent, and the host maps the memory
  bool device_address = false; // VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
  bool counted = true;         // as device memory, against the limit
};

// A range of device memory.
struct DeviceMemory {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t offset = 0;    // where it begins
  void* handle = nullptr; // the allocator's own
};

// The application's allocator, used instead of vkAllocateMemory. Called from several threads at the same
// time.
struct Allocator {
  std::function<Result<DeviceMemory>(const MemoryRequest&)> allocate;
  std::function<void(const DeviceMemory&)> free;
  // The host's address of the range's first byte, valid until it is freed. Null, or no function, if the host
  // cannot map it.
  std::function<void*(const DeviceMemory&)> map;
};

// A device's memory at a moment, in bytes.
struct MemoryReport {
  uint64_t allocated = 0; // through this Device
  uint64_t peak = 0;      // the largest `allocated` so far
  uint64_t limit = 0;     // 0: none
  uint64_t heap = 0;      // size of the largest device-local heap
  uint64_t available = 0; // an estimate of what can still be allocated
};

// A heap's budget from VK_EXT_memory_budget; zeros without the extension.
struct HeapBudget {
  uint64_t budget = 0; // bytes that this process may use
  uint64_t usage = 0;  // bytes that it uses
};

// Returns `report` with `available` filled in. The driver's budget is limited to the heap's size.
MemoryReport with_available(MemoryReport report, HeapBudget driver);

// Counts allocated bytes against a limit, which is kept also when several threads allocate.
class MemoryCount {
public:
  explicit MemoryCount(uint64_t limit) : limit_(limit) {} // 0: none

  // To be called before an allocation. Reserves its bytes, or fails if the limit would be exceeded. Call
  // confirm() or cancel() afterwards.
  Status reserve(uint64_t bytes);
  void confirm(uint64_t bytes);
  void cancel(uint64_t bytes);
  // After memory has been freed.
  void release(uint64_t bytes);

  uint64_t allocated() const;
  uint64_t peak() const;
  uint64_t limit() const { return limit_; }
  // Bytes that the calling thread has allocated so far, counted by any of these, without those that it has
  // freed.
  static int64_t of_thread();

private:
  uint64_t limit_;
  mutable std::mutex mutex_;
  uint64_t reserved_ = 0; // not yet confirmed or cancelled
  uint64_t allocated_ = 0;
  uint64_t peak_ = 0;
};

} // namespace pumice
