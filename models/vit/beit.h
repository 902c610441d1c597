#pragma once

#include "models/vit/vit.h"

namespace pumice {

// Where BEiT's attention has a bias by place.
enum class BeitBias { none, shared, each_layer };

struct BeitConfig {
  VitConfig vit;
  BeitBias bias = BeitBias::none;
  bool scaled = true; // sublayers' results have factors
  // Classes are told from the mean of the patches, which is normed in place of the last hidden state.
  bool mean_pooling = true;
};

Result<BeitConfig> read_beit_config(const Settings& settings);

// Builds the encoder from the pixels to the last hidden state.
TensorId build_beit(EncoderBuilder& builder, const BeitConfig& config, const std::string& prefix);

} // namespace pumice
