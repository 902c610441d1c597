#pragma once

#include <cstdint>
#include <vector>

namespace npc {

enum class Phase { loading, off, on }; // of the model, or of generation

// What is measured of a frame.
struct Figures {
  uint64_t frame = 0;
  Phase phase = Phase::loading;
  float frame_ms = 0;    // of the loop, from frame to frame
  float scene_us = 0;    // on the device
  float added_us = 0;    // by Pumice, on the device
  float cpu_us = 0;      // in Pumice's call
  float budget_us = 0;   // 0: there was none
  float expected_us = 0; // of the slice, by Pumice
  float largest_us = 0;  // of the step's dispatches, by Pumice
  uint32_t dispatches = 0;
  uint32_t tokens = 0;
};

// The value that `share` of all are not above; 0 of none.
float quantile(std::vector<float> values, double share);
inline float median(const std::vector<float>& values) {
  return quantile(values, 0.5);
}

} // namespace npc
