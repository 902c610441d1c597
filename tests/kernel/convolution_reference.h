#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernel/convolution/convolution.h"

// What a convolution's weights see of features [channels, frames] at position `p`.
inline std::vector<double> frame_window_reference(std::span<const float> features,
                                                  const pumice::FrameWindows& shape, uint32_t p) {
  std::vector<double> out;
  for (uint32_t channel = 0; channel < shape.channels; ++channel) {
    for (uint32_t k = 0; k < shape.width; ++k) {
      const int64_t frame = int64_t{p} * shape.stride + shape.first + k;
      const bool exists = frame >= 0 && frame < shape.frames;
      out.push_back(exists ? features[channel * shape.frames + static_cast<size_t>(frame)] : 0.0);
    }
  }
  return out;
}

// What the weights of a convolution of width 3 and stride 2 see of frames before, even and odd.
inline std::vector<double> pair_window_reference(std::span<const float> before, std::span<const float> even,
                                                 std::span<const float> odd) {
  std::vector<double> out;
  for (size_t c = 0; c < even.size(); ++c) {
    out.push_back(before.empty() ? 0.0 : before[c]);
    out.push_back(even[c]);
    out.push_back(odd[c]);
  }
  return out;
}
