#pragma once

#include <string>
#include <vector>

#include "gpu/commands.h"
#include "gpu/timestamps.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// The launches of one variant for a choice of a plan, recorded so often that a run can be timed.
class VariantBench {
public:
  // The repeats use in turn the weights and caches of all choices of the plan with the same shapes. So a run
  // reads from memory, as a step does, instead of one matrix from a processor cache.
  static Result<VariantBench> create(const DeviceContext& context, const Plan& plan, uint32_t choice,
                                     uint32_t repeats, const BufferLookup& lookup);

  // Runs it and returns the seconds of one repeat, by the device's timestamps if it has them.
  Result<double> run();

private:
  explicit VariantBench(const DeviceContext& context)
      : device_(context.device), launcher_(context.device, context.pipelines) {}

  std::shared_ptr<Device> device_;
  Launcher launcher_;
  Commands commands_;
  std::optional<Timestamps> timestamps_;
  uint32_t repeats_ = 1;
};

// The launches of one choice of a plan.
Plan launches_of_choice(const Plan& plan, uint32_t choice);

// Compares the results of `kernel` with those of the plain kernel. Returns what is wrong, or nothing if they
// agree.
std::string difference(std::span<const float> plain, std::span<const float> values,
                       const std::string& kernel);

} // namespace pumice
