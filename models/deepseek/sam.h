#pragma once

#include <string>
#include <vector>

#include "models/encoder/pixels.h"

namespace pumice {

// The settings of SAM's encoder of pictures (Kirillov et al., Segment Anything, 2023) with the convolutions
// that DeepSeek-OCR (Wei et al. 2025) has behind it.
struct SamConfig {
  static constexpr uint32_t most_side = 256; // patches on each side of a picture

  uint32_t colours = 3;
  uint32_t patch = 16;
  uint32_t side = 64; // patches on each side of the pictures that it was trained with
  uint32_t hidden = 768, heads = 12, feed_forward = 0;
  uint32_t window = 14;
  std::vector<bool> whole; // by layer: a patch attends to all of the picture, not to its window
  uint32_t neck = 256;     // channels of the convolutions, and of the two that shrink
  uint32_t between = 512, out = 896;
  float norm_eps = 1e-6f;
  bool input_bias = true;
  bool positions = true; // learned ones, which are interpolated
  bool distances = true; // scores of distances down and across
  Activation activation = Activation::gelu;

  // The rows that it makes of a picture.
  static uint32_t rows_on_side(uint32_t patches) { return ((patches + 1) / 2 + 1) / 2; }
};

Result<SamConfig> read_sam_config(const Settings& settings);

// Builds it from the input, pictures of this edge, to pixels [outputs, rows * out].
TensorId build_sam(EncoderBuilder& builder, const SamConfig& config, uint32_t edge,
                   const std::string& prefix);

} // namespace pumice
