#pragma once

#include <string>

#include "kernel/image/image.h"
#include "models/encoder/builder.h"

namespace pumice {

// A ViT's settings, for models that it is a part of too.
struct VitConfig {
  EncoderConfig encoder;
  PatchShape patches;
  bool input_bias = true; // of queries, keys and values
};

Result<VitConfig> read_vit_config(const Settings& settings);

// From the pixels to the final norm. `prefix` is what Hugging Face's names begin with.
TensorId build_vit(EncoderBuilder& builder, const VitConfig& config, const std::string& prefix);

Result<std::unique_ptr<ModelDefinition>> open_vit(const ModelFile& file);

} // namespace pumice
