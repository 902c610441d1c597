#pragma once

#include <string>
#include <vector>

#include "kernel/cells/cells.h"
#include "models/encoder/builder.h"

namespace pumice {

struct DavitStage {
  uint32_t depth = 1, channels = 0;
  uint32_t heads = 1, groups = 1;              // of a window's attention, and of the channels'
  uint32_t patch = 0, stride = 1, padding = 0; // of the convolution that begins it
  bool norm_first = false;                     // that convolution reads normed pixels
};

// The settings of DaViT (Ding et al., DaViT: Dual Attention Vision Transformers, 2022), as Florence-2 has it.
struct DavitConfig {
  uint32_t colours = 3;
  std::vector<DavitStage> stages;
  uint32_t window = 12;
  double feed_forward = 4; // columns for each channel
  bool input_bias = true;  // of queries, keys and values
  Activation activation = Activation::gelu;

  uint32_t inner_columns(uint32_t channels) const { return static_cast<uint32_t>(feed_forward * channels); }
  // The pixels that a stage makes of those before it; of no height where they are fewer than a patch.
  static CellLayout pixels_of(const DavitStage& stage, const CellLayout& before);
  // Those of the last stage, of a picture.
  CellLayout last_pixels(uint32_t height, uint32_t width) const;
};

Result<DavitConfig> read_davit_config(const Settings& settings);

// Whether it can read pictures of this size.
Status check_picture(const DavitConfig& config, uint32_t height, uint32_t width);

// Builds the encoder from the input, pictures of this size, to the last stage's pixels [outputs, pixels *
// channels]. `prefix` is the prefix of Hugging Face's tensor names.
TensorId build_davit(EncoderBuilder& builder, const DavitConfig& config, uint32_t height, uint32_t width,
                     const std::string& prefix);

} // namespace pumice
