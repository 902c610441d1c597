#pragma once

#include <memory>
#include <span>

#include "gpu/buffer.h"
#include "recording/prepared_plan.h"

namespace pumice {

// The memory of a plan's outputs, which kernels write and the host reads. With unified memory both use one
// buffer. Otherwise kernels have one of their own, because some read outputs again, and each run of the plan
// ends with a copy into memory that is cached for the host: reading device memory through the bus is slow.
class PlanOutputs {
public:
  static Result<PlanOutputs> create(const std::shared_ptr<Device>& device, uint64_t bytes, const char* name);
  // memory_bytes() of outputs of this size, without allocating them.
  static Result<uint64_t> memory_needed(const Device& device, uint64_t bytes);
  PlanOutputs() = default; // of a plan without outputs

  const Buffer& written() const { return written_; } // by kernels
  // What each run of the plan has to copy after its last dispatch.
  std::vector<BufferCopy> copies(const Plan& plan) const;
  // For the host, after a run of a plan with those copies has finished.
  std::span<const std::byte> bytes() const { return (host_ ? host_ : written_).mapped(); }
  uint64_t memory_bytes() const { return written_.memory_bytes() + host_.memory_bytes(); }

private:
  Buffer written_, host_; // no host_ where the host reads what kernels write
};

} // namespace pumice
