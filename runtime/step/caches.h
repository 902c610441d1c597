#pragma once

#include <memory>
#include <vector>

#include "gpu/buffer.h"
#include "model/memory_plan.h"

namespace pumice {

// The memory of one session's keys and values, which its decoder and its encoder share.
class Caches {
public:
  static Result<std::shared_ptr<const Caches>> create(const std::shared_ptr<Device>& device, MemoryPlan plan);

  const MemoryPlan& plan() const { return plan_; }
  const Buffer& part(uint32_t index) const { return parts_[index]; }
  uint64_t memory_bytes() const;

private:
  explicit Caches(MemoryPlan plan) : plan_(std::move(plan)) {}

  MemoryPlan plan_;
  std::vector<Buffer> parts_;
};

} // namespace pumice
