#pragma once

#include <string>
#include <vector>

#include "forecast/launch_work.h"
#include "plan/plan.h"

namespace pumice {

// How long a step would take on a chip, from the step's plan and the chip's figures alone (README.md here has
// the formulas, and what they leave out).

// What a launch takes longest for.
enum class Bound { memory, cache, instructions, latency, matrices, shared_memory, launch };
std::string_view to_string(Bound bound);

struct LaunchForecast {
  LaunchWork work;
  bool barrier = false;    // before it
  double subgroups = 0;    // resident on a core at a time
  double waves = 0;        // of the workgroups that all cores keep at a time
  double flight_bytes = 0; // that the whole chip has asked for at a time
  double seconds = 0;      // with what begins it
  Bound bound = Bound::memory;

  // Of what the chip computes at most in that time.
  double peak_share(const Chip& chip) const { return work.flops / seconds / chip.peak_flops(); }
};

struct StepForecast {
  std::vector<LaunchForecast> launches; // as in the plan
  uint32_t rows = 1;
  double seconds = 0;
  double memory_seconds =
      0; // the least: every byte of weights, keys and values once, at the data sheet's bandwidth
  double memory_bytes = 0;
  double flops = 0;
  double barriers = 0;

  double tokens_per_second() const { return rows / seconds; }
  double most_tokens_per_second() const { return rows / memory_seconds; }
  double peak_share(const Chip& chip) const { return flops / seconds / chip.peak_flops(); }
};

LaunchForecast forecast_launch(const LaunchWork& work, const Chip& chip, bool barrier);
StepForecast forecast_step(const Plan& plan, const Chip& chip, const StepExtent& extent);

// A line for the step, and one for each launch.
std::string forecast_text(const Plan& plan, const Chip& chip, const StepForecast& forecast,
                          uint32_t positions);
// The same of a prompt: what its launches compute, and at the end a line for each class of products.
std::string prompt_text(const Plan& plan, const Chip& chip, const StepForecast& forecast, uint32_t positions);

} // namespace pumice
