#pragma once

#include <cstdint>
#include <vector>

namespace npc {

enum class Phase { loading, off, on }; // the model is loading; generation is off or on

// The measurements of a frame.
struct Figures {
  uint64_t frame = 0;
  Phase phase = Phase::loading;
  float frame_ms = 0;    // time of the loop, from frame to frame
  float scene_us = 0;    // device time of the scene
  float added_us = 0;    // device time of Pumice's slice
  float cpu_us = 0;      // CPU time of the call of Pumice
  float budget_us = 0;   // 0: no slice
  float expected_us = 0; // device time of the slice, as Pumice expects it
  float control_us = 0;  // device time of the control; 0: none
  float largest_us = 0;  // device time of the largest dispatch of the step, as Pumice expects it
  uint32_t dispatches = 0;
  uint32_t tokens = 0;
};

// The quantile at `share` (0 to 1); 0 if there are no values.
float quantile(std::vector<float> values, double share);
inline float median(const std::vector<float>& values) {
  return quantile(values, 0.5);
}

} // namespace npc
