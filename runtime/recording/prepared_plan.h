#pragma once

#include <vector>

#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// Between a buffer of the application's and one of ours.
struct BufferCopy {
  VkBuffer from = VK_NULL_HANDLE;
  VkBuffer to = VK_NULL_HANDLE;
  VkBufferCopy region = {};
};

// What belongs to every run of a plan beside its dispatches.
struct PlanCopies {
  std::vector<BufferCopy> before, after;
};

// A plan with the pipelines, descriptor sets and parameters of its dispatches, which can be recorded into any
// command buffer from here on.
class PreparedPlan {
public:
  static Result<PreparedPlan> create(const DeviceContext& context, const Plan& plan,
                                     const BufferLookup& lookup, PlanCopies copies = {});

  size_t size() const { return launches_.size(); }
  // Records a dispatch, after the barrier that it needs behind those before it. With the first and the last
  // one come the copies.
  void record(Commands& commands, size_t dispatch) const;
  // Records a dispatch with nothing to do: drivers compile for some when they first see them, which this
  // brings forward.
  void record_empty(Commands& commands, size_t dispatch) const;
  VkPipeline pipeline(size_t dispatch) const { return launches_[dispatch].pipeline; }

private:
  explicit PreparedPlan(const DeviceContext& context) : launcher_(context.device, context.pipelines) {}

  Launcher launcher_;
  std::vector<Launch> launches_;
  std::vector<bool> barriers_;
  PlanCopies copies_;
};

} // namespace pumice
