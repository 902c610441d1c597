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

// What a buffer needs.
struct MemoryRequest {
  uint64_t bytes = 0;
  uint64_t alignment = 1;        // of the offset
  uint32_t memory_type_bits = 0; // the memory types that will do
  uint32_t memory_type = 0;      // the one of them to be taken if there is a choice
  bool host_visible = false;   // these types are host-visible and host-coherent, and the host maps the memory
  bool device_address = false; // VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
};

// A range of device memory.
struct DeviceMemory {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t offset = 0;    // where it begins
  void* handle = nullptr; // the allocator's own
};

// An application's memory, in place of vkAllocateMemory. Called from several threads at a time.
struct Allocator {
  std::function<Result<DeviceMemory>(const MemoryRequest&)> allocate;
  std::function<void(const DeviceMemory&)> free;
  // Where the host sees the range's first byte until it is freed; null, or no function, where it cannot.
  std::function<void*(const DeviceMemory&)> map;
};

// A device's memory at a moment, in bytes.
struct MemoryReport {
  uint64_t allocated = 0; // through this Device
  uint64_t peak = 0;      // the most there has been
  uint64_t limit = 0;     // 0: none
  uint64_t heap = 0;      // the largest of the device's own
  uint64_t available = 0; // what may still be allocated, as far as anyone can say
};

// What a driver says of a heap (VK_EXT_memory_budget). Zeros where it says nothing.
struct HeapBudget {
  uint64_t budget = 0; // what this process may have of it
  uint64_t usage = 0;  // what it has
};

// `report`, whose other fields are known, with what is available. A driver's word counts no further than the
// heap's size bears it out.
MemoryReport with_available(MemoryReport report, HeapBudget driver);

// Counts bytes against a limit: however many threads allocate, there are never more than it says.
class MemoryCount {
public:
  explicit MemoryCount(uint64_t limit) : limit_(limit) {} // 0: none

  // Before an allocation: takes room for it, or refuses. Either confirm() or cancel() follows.
  Status reserve(uint64_t bytes);
  void confirm(uint64_t bytes);
  void cancel(uint64_t bytes);
  // After memory has been freed.
  void release(uint64_t bytes);

  uint64_t allocated() const;
  uint64_t peak() const;
  uint64_t limit() const { return limit_; }

private:
  uint64_t limit_;
  mutable std::mutex mutex_;
  uint64_t reserved_ = 0; // and neither confirmed nor cancelled
  uint64_t allocated_ = 0;
  uint64_t peak_ = 0;
};

} // namespace pumice
