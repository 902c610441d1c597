#pragma once

#include <memory>
#include <vector>

#include "gpu/buffer.h"
#include "model/session_memory.h"

namespace pumice {

// The memory of one session's keys and values, which its decoder and its encoder share.
class Caches {
public:
  static Result<std::shared_ptr<const Caches>> create(const std::shared_ptr<Device>& device,
                                                      SessionMemory memory);

  uint32_t id() const { return id_; } // that no others in this process have
  const SessionMemory& memory() const { return memory_; }
  const Buffer& allocation(uint32_t index) const { return allocations_[index]; }
  uint64_t memory_bytes() const;

private:
  explicit Caches(SessionMemory memory);

  const uint32_t id_;
  SessionMemory memory_;
  std::vector<Buffer> allocations_;
};

} // namespace pumice
