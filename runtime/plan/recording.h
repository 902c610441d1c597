#pragma once

#include <memory>

#include "gpu/commands.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// Command buffers made from a plan, once, and submitted as often as steps run. Decides nothing: what changes
// from step to step is in the step block.
class Recording {
public:
  static Result<Recording> create(const DeviceContext& context, const Plan& plan, const BufferLookup& lookup);

  // Submits `before` and then as many steps, together where that does not run long enough for a driver to
  // reset the device. Returns the timeline value that is reached when all are done.
  Result<uint64_t> submit(uint32_t steps = 1, std::span<const VkCommandBuffer> before = {}) const;

private:
  Recording(const DeviceContext& context)
      : device_(context.device), launcher_(context.device, context.pipelines) {}

  std::shared_ptr<Device> device_;
  Launcher launcher_;
  Commands commands_;
  std::vector<double> seconds_; // that each of its buffers may take
};

} // namespace pumice
