#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/align.h"
#include "gpu/device.h"
#include "gpu/host_memory.h"

namespace pumice {

// Who uses a buffer. This decides the kind of memory that it gets.
enum class MemoryUse {
  device,   // kernels; with unified memory it is mapped for the host too
  shared,   // kernels, and small writes by the host: in device-local memory if the host can map that
  upload,   // the host writes, the device copies from it
  readback, // the device writes, the host reads: cached for the host, where the device has such memory
  host,     // the host writes once, kernels read: none of the device's own memory, and not counted as such
};

// A buffer with memory of its own. Move-only.
class Buffer {
public:
  // The size that is allocated for a buffer of `bytes`. It is larger, because compilers of CPU drivers move a
  // loop's loads ahead of its exit test: they read up to one block of a packed tile (1 KiB) past the end. The
  // values are not used, but the memory must exist.
  static constexpr uint64_t allocated_bytes(uint64_t bytes) { return align(bytes + 2048, 16); }

  // memory_bytes() that a buffer of this size would have, without allocating it.
  static Result<uint64_t> memory_needed(const Device& device, uint64_t bytes);
  // Whether a buffer for this use would be mapped.
  static Result<bool> will_be_mapped(const Device& device, MemoryUse use);

  // `name`: for captures and validation messages.
  static Result<Buffer> create(std::shared_ptr<Device> device, uint64_t bytes, MemoryUse use,
                               const char* name = "");
  // A buffer of the host's memory, which other devices may import as well. Only of a device with
  // can_import(); the driver may refuse it nevertheless. It is not counted as device memory.
  static Result<Buffer> import(std::shared_ptr<Device> device, std::shared_ptr<HostMemory> memory,
                               const char* name = "");
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { release(); }

  VkBuffer handle() const { return handle_; }
  uint64_t address() const { return address_; } // zero where kernels use none
  uint64_t size() const { return size_; }
  // Bytes of device memory behind the buffer: its size and what the driver adds.
  uint64_t memory_bytes() const { return memory_bytes_; }
  // The buffer's bytes, coherent with the device; empty where the host cannot map it.
  std::span<std::byte> mapped() const { return {mapped_, mapped_ ? size_ : 0}; }
  // Whether the host can read them at the speed of its own memory.
  bool cached() const { return cached_; }
  explicit operator bool() const { return handle_ != VK_NULL_HANDLE; }

private:
  static Result<VkBuffer> make_handle(const Device& device, uint64_t bytes, const void* next = nullptr);
  static Result<VkMemoryRequirements> requirements(const Device& device, uint64_t bytes);
  Status allocate(MemoryUse use);
  Status allocate_imported();
  void read_address();
  void release();

  std::shared_ptr<Device> device_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  DeviceMemory memory_;
  uint64_t size_ = 0;
  uint64_t memory_bytes_ = 0;
  uint64_t address_ = 0;
  std::byte* mapped_ = nullptr;
  bool cached_ = false;
  bool counted_ = true;
  std::shared_ptr<HostMemory> imported_; // null: the memory is the device's own
};

} // namespace pumice
