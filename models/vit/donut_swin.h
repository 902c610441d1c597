#pragma once

#include <string>
#include <vector>

#include "kernel/cells/cells.h"
#include "models/encoder/builder.h"

namespace pumice {

// The settings of Donut's encoder.
struct DonutSwinConfig {
  EncoderConfig encoder;
  uint32_t height = 0, width = 0; // of a picture, in pixels
  uint32_t patch_height = 4, patch_width = 4;
  std::vector<uint32_t> depths, heads; // of each stage
  uint32_t channels = 0;               // of the first stage's pixels; each next one's has twice as many
  uint32_t window = 7;
  float feed_forward = 4; // columns for each channel
  bool input_bias = true; // of queries, keys and values

  uint32_t inner_columns(uint32_t of) const {
    return static_cast<uint32_t>(feed_forward * static_cast<float>(of));
  }
  // Patches, in cells of as many as become one row at the end.
  CellLayout cells() const;
};

Result<DonutSwinConfig> read_donut_swin_config(const Settings& settings);

// Builds the encoder from the pixels to the last hidden state. `prefix` is the prefix of Hugging Face's
// tensor names.
TensorId build_donut_swin(EncoderBuilder& builder, const DonutSwinConfig& config, const std::string& prefix);

} // namespace pumice
