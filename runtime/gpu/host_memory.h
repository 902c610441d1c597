#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace pumice {

// Memory of the host that buffers of one or more devices can have as theirs (Buffer::import). It begins with
// zeros.
class HostMemory {
public:
  // For a buffer of `bytes`. `alignment`: the largest Capabilities::host_memory_alignment of the devices.
  static Result<std::shared_ptr<HostMemory>> create(uint64_t bytes, uint64_t alignment);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // All of it, which is more than the bytes of the buffer.
  std::span<std::byte> bytes() const { return bytes_; }
  uint64_t buffer_bytes() const { return buffer_bytes_; }

private:
  HostMemory(std::span<std::byte> bytes, uint64_t alignment, uint64_t buffer_bytes)
      : bytes_(bytes), alignment_(alignment), buffer_bytes_(buffer_bytes) {}

  const std::span<std::byte> bytes_;
  const uint64_t alignment_, buffer_bytes_;
};

} // namespace pumice
