#pragma once

#include <string>
#include <vector>

#include "kernel/image/image.h"
#include "models/encoder/builder.h"

namespace pumice {

// A ViT's settings. Other models may contain a ViT too.
struct VitConfig {
  EncoderConfig encoder;
  PatchShape patches;
  bool input_bias = true;                             // of queries, keys and values
  std::vector<std::string_view> lead = {"cls_token"}; // tensors of the tokens that stand before the patches
  bool positions = true;                              // there is a table of them
  bool final_norm = true;
  // Patches down and across that the table of positions was made for: for another picture it is interpolated.
  uint32_t grid_height = 0, grid_width = 0;
};

Result<VitConfig> read_vit_config(const Settings& settings);

// Sets the picture's size, of which the patches must be divisors.
Status set_picture_size(const Settings& settings, VitConfig& config, uint32_t height, uint32_t width);
// Sets the tokens that stand before the patches.
void set_lead(VitConfig& config, std::vector<std::string_view> tensors);

// ViT's names of a layer's tensors, and its options.
LayerNames vit_layer_names(const VitConfig& config, const std::string& prefix);

// Builds the encoder from the pixels to the final norm. `prefix` is the prefix of Hugging Face's tensor
// names.
TensorId build_vit(EncoderBuilder& builder, const VitConfig& config, const std::string& prefix,
                   const LayerNames& names, const AttentionStyle& style = {});
inline TensorId build_vit(EncoderBuilder& builder, const VitConfig& config, const std::string& prefix) {
  return build_vit(builder, config, prefix, vit_layer_names(config, prefix));
}

} // namespace pumice
