#pragma once

#include "media/image.h"

namespace pumice {

// Filters for resizing. The numbers are those of Python's PIL and of preprocessor_config.json.
enum class Resampling : uint32_t {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5
};

// A rectangle of a picture, in pixels. It may reach beyond the picture.
struct Window {
  int64_t left = 0, top = 0;
  uint32_t width = 0, height = 0;
};

// Resizes `image` to width x height and returns the pixels of `window`, with zeros outside of the picture.
// Only the window is computed, so the cost depends on its size and not on width x height. As in PIL, the
// filter is widened when a picture shrinks, so that no pixel is skipped, and results are rounded to 8 bits
// after each direction.
Image resize(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
             const Window& window);

} // namespace pumice
