#pragma once

#include <cmath>

#include "media/image.h"
#include "support/command/answers.h"

// A fixture's picture as a file can hold it: values from -1 to 1 become levels of 8 bits, which rounds them.
inline pumice::Image fixture_picture(const Answers& answers, size_t index) {
  const std::vector<uint64_t>& shape = answers.shapes.at("pixel_values");
  const std::span<const float> values = answers.row("pixel_values", index);
  const auto height = static_cast<uint32_t>(shape.at(2)), width = static_cast<uint32_t>(shape.at(3));
  const size_t plane = size_t{height} * width;
  pumice::Image image{width, height, std::vector<uint8_t>(3 * plane)};
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t i = 0; i < plane; ++i) {
      const float level = std::round((values[channel * plane + i] + 1) * 127.5f);
      image.pixels[i * 3 + channel] = static_cast<uint8_t>(std::clamp(level, 0.0f, 255.0f));
    }
  }
  return image;
}
