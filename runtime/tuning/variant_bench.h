#pragma once

#include <string>
#include <vector>

#include "gpu/commands.h"
#include "gpu/timestamps.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// One variant's way of making a choice of a plan, recorded so often that a run of it can be timed.
class VariantBench {
public:
  // Other choices of the plan that differ in their weights and caches alone lend these, so that a run reads
  // memory as a step does, and not one matrix again and again from a cache.
  static Result<VariantBench> create(const DeviceContext& context, const Plan& plan, uint32_t choice,
                                     uint32_t repeats, const BufferLookup& lookup);

  // Runs it, and returns the seconds of one repeat: by the device's clock where it has one.
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

// The launches of one choice, as a plan of their own.
Plan part_of(const Plan& plan, uint32_t choice);

// What is wrong with values that should be the plain kernel's, of a kernel of this name; empty if nothing is.
std::string difference(std::span<const float> plain, std::span<const float> values,
                       const std::string& kernel);

} // namespace pumice
