#pragma once

#include <span>
#include <vector>

#include "kernel/image/image.h"

// A patch of a picture, plane after plane and row after row.
inline std::vector<double> patch_reference(std::span<const float> pixels, const pumice::PatchShape& shape,
                                           uint32_t index) {
  const uint32_t across = shape.width / shape.patch_width;
  std::vector<double> out;
  for (uint32_t channel = 0; channel < shape.channels; ++channel) {
    for (uint32_t y = 0; y < shape.patch_height; ++y) {
      for (uint32_t x = 0; x < shape.patch_width; ++x) {
        const uint32_t row = index / across * shape.patch_height + y;
        const uint32_t column = index % across * shape.patch_width + x;
        out.push_back(pixels[(size_t{channel} * shape.height + row) * shape.width + column]);
      }
    }
  }
  return out;
}
