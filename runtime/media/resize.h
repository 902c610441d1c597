#pragma once

#include "media/image.h"

namespace pumice {

// How a picture is resized, numbered as Python's PIL numbers them and preprocessor_config.json names them.
enum class Resampling : uint32_t {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5
};

// A part of a picture; it may reach beyond it.
struct Window {
  int64_t left = 0, top = 0;
  uint32_t width = 0, height = 0;
};

// The pixels of `window` of `image` resized to width x height, and zeros where the window lies outside. Only
// the window is computed, so that a picture that is resized to something huge costs what is kept of it. As
// PIL does, a filter is stretched when a picture shrinks, so that no pixel is skipped, and each direction
// rounds to 8 bits.
Image resize(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
             const Window& window);

} // namespace pumice
