#pragma once

#include <string>
#include <vector>

#include "forecast/launch_work.h"
#include "plan/plan.h"

namespace pumice {

// How long a decode step would take on a chip, from the step's plan and the chip's figures alone (README.md
// here has the formulas, and what they leave out).

// What a launch takes longest for.
enum class Bound { memory, cache, instructions, latency };
std::string_view to_string(Bound bound);

struct LaunchForecast {
  LaunchWork work;
  bool barrier = false;    // before it
  double subgroups = 0;    // resident on a core at a time
  double waves = 0;        // of the workgroups that all cores keep at a time
  double flight_bytes = 0; // that the whole chip has asked for at a time
  double seconds = 0;      // with what begins it
  Bound bound = Bound::memory;
};

struct StepForecast {
  std::vector<LaunchForecast> launches; // as in the plan
  double seconds = 0;
  double memory_seconds =
      0; // the least: every byte of weights, keys and values once, at the data sheet's bandwidth
  double memory_bytes = 0;
  double barriers = 0;

  double tokens_per_second() const { return 1 / seconds; }
  double most_tokens_per_second() const { return 1 / memory_seconds; }
};

LaunchForecast forecast_launch(const LaunchWork& work, const Chip& chip, bool barrier);
// `positions`: that the step's row sees, its own included.
StepForecast forecast_step(const Plan& plan, const Chip& chip, uint32_t positions);

// A line for the step, and one for each launch.
std::string forecast_text(const Plan& plan, const Chip& chip, const StepForecast& forecast,
                          uint32_t positions);

} // namespace pumice
