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

// The window of patches in place `index`, joined or averaged, of the rows of a grid.
inline std::vector<double> window_reference(std::span<const float> rows, size_t columns,
                                            const pumice::PatchWindows& windows, uint32_t index) {
  const bool joined = windows.rule == pumice::PatchWindows::Rule::joined;
  const uint32_t across = windows.width / windows.window, area = windows.window * windows.window;
  std::vector<double> out(joined ? area * columns : columns);
  for (uint32_t y = 0; y < windows.window; ++y) {
    for (uint32_t x = 0; x < windows.window; ++x) {
      const size_t patch =
          size_t{index / across * windows.window + y} * windows.width + index % across * windows.window + x;
      for (size_t i = 0; i < columns; ++i) {
        const double value = rows[patch * columns + i];
        if (joined) {
          out[(y * windows.window + x) * columns + i] = value;
        } else {
          out[i] += value / area;
        }
      }
    }
  }
  return out;
}
