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

  // Submits one step. Returns the timeline value that is reached when it is done.
  Result<uint64_t> submit() const;
  // How many submissions a step is cut into, so that none runs long enough for a driver to reset the device.
  size_t submissions() const { return commands_.buffers().size(); }

private:
  Recording(const DeviceContext& context)
      : device_(context.device), launcher_(context.device, context.pipelines) {}

  std::shared_ptr<Device> device_;
  Launcher launcher_;
  Commands commands_;
};

} // namespace pumice
