#pragma once

#include <vector>

#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// A copy between a buffer of the application and one of Pumice.
struct BufferCopy {
  VkBuffer from = VK_NULL_HANDLE;
  VkBuffer to = VK_NULL_HANDLE;
  VkBufferCopy region = {};
};

// Copies that every run of a plan makes before its first and after its last dispatch.
struct PlanCopies {
  std::vector<BufferCopy> before, after;
};

// A plan with the pipelines, descriptor sets and parameters of its dispatches, ready to be recorded into any
// command buffer.
class PreparedPlan {
public:
  static Result<PreparedPlan> create(const DeviceContext& context, const Plan& plan,
                                     const BufferLookup& lookup, PlanCopies copies = {});

  size_t size() const { return launches_.size(); }
  // Records a dispatch, after a barrier if it needs one. The copies are recorded with the first and the last
  // dispatch.
  void record(Commands& commands, size_t dispatch) const;

private:
  explicit PreparedPlan(const DeviceContext& context) : launcher_(context.device, context.pipelines) {}

  Launcher launcher_;
  std::vector<Launch> launches_;
  std::vector<bool> barriers_;
  PlanCopies copies_;
};

} // namespace pumice
