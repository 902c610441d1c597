#pragma once

#include <atomic>
#include <memory>

#include "gpu/commands.h"
#include "recording/prepared_plan.h"

namespace pumice {

// Command buffers made from a plan, once, and submitted as often as steps run. Decides nothing: what changes
// from step to step is in the step block.
class Recording {
public:
  static Result<Recording> create(const DeviceContext& context, const Plan& plan, const BufferLookup& lookup,
                                  PlanCopies copies = {});

  // Submits `before` and then as many steps, together where that does not run long enough for a driver to
  // reset the device. Returns the point that is reached when all are done.
  // With `interrupt`, no more than two submissions are under way at a time, and once it is set no other is
  // begun: `cancelled`, when those have finished.
  Result<TimelinePoint> submit(uint32_t steps = 1, std::span<const VkCommandBuffer> before = {},
                               const std::atomic<bool>* interrupt = nullptr) const;

  // To be recorded in pieces.
  const PreparedPlan& plan() const { return plan_; }

private:
  Recording(std::shared_ptr<Device> device, PreparedPlan plan)
      : device_(std::move(device)), plan_(std::move(plan)) {}

  std::shared_ptr<Device> device_;
  PreparedPlan plan_;
  Commands commands_;
  std::vector<double> seconds_; // that each of its buffers may take
};

} // namespace pumice
