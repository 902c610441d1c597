#pragma once

#include <string>

#include "kernel/image/image.h"
#include "models/encoder/builder.h"

namespace pumice {

// A ViT's settings. Other models may contain a ViT too.
struct VitConfig {
  EncoderConfig encoder;
  PatchShape patches;
  bool input_bias = true; // of queries, keys and values
};

Result<VitConfig> read_vit_config(const Settings& settings);

// Builds the encoder from the pixels to the final norm. `prefix` is the prefix of Hugging Face's tensor
// names.
TensorId build_vit(EncoderBuilder& builder, const VitConfig& config, const std::string& prefix);

Result<std::unique_ptr<ModelDefinition>> open_vit(const ModelFile& file);

} // namespace pumice
