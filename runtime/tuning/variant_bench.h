#pragma once

#include <optional>
#include <span>
#include <string>

#include "gpu/timestamps.h"
#include "kernel/device_context.h"
#include "plan/plan.h"
#include "recording/prepared_plan.h"
#include "tuning/device_work.h"

namespace pumice {

// The launches of one variant for a choice of a plan, to be timed again and again.
class VariantBench {
public:
  // The repeats use in turn the weights and caches of all choices of the plan with the same shapes. So a run
  // reads from memory, as a step does, instead of one matrix from a processor cache.
  static Result<VariantBench> create(const DeviceContext& context, const Plan& plan, uint32_t choice,
                                     const BufferLookup& lookup);

  // Runs so many repeats, which take about `expected` seconds each, as one piece of work. Returns the seconds
  // of one repeat, by the device's timestamps if it has them.
  Result<double> run(DeviceWork& work, uint32_t repeats, double expected);

private:
  explicit VariantBench(PreparedPlan launches) : launches_(std::move(launches)) {}

  PreparedPlan launches_;
  size_t ways_ = 1; // repeats that differ in their weights
  std::optional<Timestamps> timestamps_;
};

// The launches of one choice of a plan.
Plan launches_of_choice(const Plan& plan, uint32_t choice);

// Compares the results of `kernel` with those of the plain kernel. Returns what is wrong, or nothing if they
// agree.
std::string difference(std::span<const float> plain, std::span<const float> values,
                       const std::string& kernel);

} // namespace pumice
