#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/commands.h"
#include "recording/prepared_plan.h"

namespace pumice {

// Drivers reset a device after about two seconds of one submission. The limit is far below, because expected
// times are rough.
inline constexpr double longest_submission_seconds = 0.3;

// Command buffers that are recorded from a plan once, and submitted for every step. Whatever changes from
// step to step is in the step block, not in the commands.
class Recording {
public:
  static Result<Recording> create(const DeviceContext& context, const Plan& plan, const BufferLookup& lookup,
                                  PlanCopies copies = {});

  // Submits `before` and then `steps` steps. They go into one submission unless that could run so long that a
  // driver resets the device. Returns the point of the timeline at which all are done. With `interrupt`, or
  // one in the context, at most two submissions are in flight at a time. Once it is set, no other is made,
  // and the call returns `cancelled` after those have finished. `before_sampling` is called while the device
  // works on what comes before the sampling of the first step, which waits for it; if it fails, so does this,
  // without sampling and after the rest has finished.
  Result<TimelinePoint> submit(uint32_t steps = 1, std::span<const VkCommandBuffer> before = {},
                               const std::atomic<bool>* interrupt = nullptr,
                               const std::function<Status()>& before_sampling = {}) const;

  // For recording single dispatches, as slices do.
  const PreparedPlan& plan() const { return plan_; }

private:
  Recording(const DeviceContext& context, PreparedPlan plan)
      : device_(context.device), stop_(context.interrupt), plan_(std::move(plan)) {}

  std::shared_ptr<Device> device_;
  const std::atomic<bool>* stop_; // the context's interrupt
  PreparedPlan plan_;
  Commands commands_;
  std::vector<double> seconds_;    // estimated, of each command buffer
  std::optional<size_t> sampling_; // the command buffer that begins with the sampling; none: there is none
};

} // namespace pumice
