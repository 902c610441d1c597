#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

  // Runs so many repeats, which take about `expected` seconds each (0: not known), as one piece of work; or
  // one repeat, with a piece for each launch, if it may take longer than a piece should. Returns the seconds
  // of one repeat, by the device's timestamps if it has them.
  Result<double> run(DeviceWork& work, uint32_t repeats, double expected);

private:
  Result<double> run_apart(DeviceWork& work);
  explicit VariantBench(PreparedPlan launches) : launches_(std::move(launches)) {}

  PreparedPlan launches_;
  size_t ways_ = 1;               // repeats that differ in their weights
  std::vector<double> predicted_; // seconds of each launch of a repeat
  std::optional<Timestamps> timestamps_;
};

// The launches of one choice of a plan.
Plan launches_of_choice(const Plan& plan, uint32_t choice);

// Whether a kernel rounds what it multiplies to fewer than 32 bits.
bool rounds(const std::string& kernel);
// The relative error that results of a kernel may have: more for those that round; the others only add in
// another order.
double tolerance(const std::string& kernel);

// Compares results with what they should be, within a relative error. `whose`: what `expected` is, for the
// message. Returns what is wrong, or nothing if they agree.
std::string difference(std::span<const float> expected, std::span<const float> values, double allowed,
                       std::string_view whose = "the plain kernel's");

} // namespace pumice
