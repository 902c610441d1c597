// Allocation of device memory, and the memory report.
#include <fmt/format.h>

#include "gpu/device.h"

namespace pumice {

Result<DeviceMemory> Device::allocate(const MemoryRequest& request) {
  const uint64_t counted = request.counted ? request.bytes : 0;
  PUMICE_CHECK(memory_count_.reserve(counted));
  Result<DeviceMemory> memory =
      allocator_.allocate ? allocate_from_application(request) : allocate_from_driver(request);
  if (memory.ok()) {
    memory_count_.confirm(counted);
  } else {
    memory_count_.cancel(counted);
  }
  return memory;
}

Result<DeviceMemory> Device::allocate_from_application(const MemoryRequest& request) {
  PUMICE_TRY(const DeviceMemory memory, allocator_.allocate(request));
  if (memory.memory && memory.offset % request.alignment == 0) return memory;
  Error error{Code::invalid_argument,
              memory.memory
                  ? fmt::format("the application's allocator gave memory at the offset {}: it must be a "
                                "multiple of {}",
                                memory.offset, request.alignment)
                  : std::string("the application's allocator gave no memory and no error")};
  if (memory.memory) allocator_.free(memory);
  return error;
}

Result<DeviceMemory> Device::allocate_from_driver(const MemoryRequest& request) {
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                            request.device_address ? &flags : nullptr};
  info.allocationSize = request.bytes;
  info.memoryTypeIndex = request.memory_type;
  DeviceMemory memory;
  if (VkResult result = table_.vkAllocateMemory(handle_, &info, nullptr, &memory.memory);
      result != VK_SUCCESS) {
    Error error = vulkan_error("vkAllocateMemory", result);
    error.message += fmt::format(" for {} bytes on {}", request.bytes, capabilities_.name);
    return error;
  }
  return memory;
}

Result<DeviceMemory> Device::import(std::span<std::byte> bytes, uint32_t memory_type) {
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkImportMemoryHostPointerInfoEXT pointer{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                           capabilities_.uses_addresses() ? &flags : nullptr};
  pointer.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  pointer.pHostPointer = bytes.data();
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &pointer};
  info.allocationSize = bytes.size();
  info.memoryTypeIndex = memory_type;
  DeviceMemory memory;
  if (VkResult result = table_.vkAllocateMemory(handle_, &info, nullptr, &memory.memory);
      result != VK_SUCCESS) {
    return vulkan_error("vkAllocateMemory", result);
  }
  return memory;
}

Result<std::byte*> Device::map(const DeviceMemory& memory) {
  if (allocator_.allocate) {
    return static_cast<std::byte*>(allocator_.map ? allocator_.map(memory) : nullptr);
  }
  void* pointer = nullptr;
  if (VkResult result = table_.vkMapMemory(handle_, memory.memory, 0, VK_WHOLE_SIZE, 0, &pointer);
      result != VK_SUCCESS) {
    return vulkan_error("vkMapMemory", result);
  }
  return static_cast<std::byte*>(pointer);
}

void Device::free(const DeviceMemory& memory, uint64_t bytes) {
  if (hangs_) return;
  if (allocator_.allocate) {
    allocator_.free(memory);
  } else {
    table_.vkFreeMemory(handle_, memory.memory, nullptr);
  }
  memory_count_.release(bytes);
}

// The budget is a property of the physical device, so the logical device need not have the extension enabled.
HeapBudget Device::heap_budget() const {
  if (!capabilities_.memory_budget) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, &budget};
  table_.vkGetPhysicalDeviceMemoryProperties2(capabilities_.handle, &memory);
  for (uint32_t heap = 0; heap < memory.memoryProperties.memoryHeapCount; ++heap) {
    const VkMemoryHeap& found = memory.memoryProperties.memoryHeaps[heap];
    if (!(found.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || found.size != capabilities_.memory_bytes)
      continue;
    return {budget.heapBudget[heap], budget.heapUsage[heap]};
  }
  return {};
}

MemoryReport Device::memory() const {
  MemoryReport report;
  report.allocated = memory_count_.allocated();
  report.peak = memory_count_.peak();
  report.limit = memory_count_.limit();
  report.heap = capabilities_.memory_bytes;
  return with_available(report, heap_budget());
}

} // namespace pumice
