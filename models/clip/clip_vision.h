#pragma once

#include "kernel/image/image.h"
#include "models/encoder/builder.h"

namespace pumice {

// The settings of CLIP's encoder of pictures, which other models have too.
struct ClipVisionConfig {
  EncoderConfig encoder;
  PatchShape patches;
  bool class_token = true; // before the patches
  bool patch_bias = false;
  bool norm_before = true; // of the embeddings
  // The names of the feed-forward's two matrices are exchanged, as in GGUF files of the first LLaVA.
  bool names_exchanged = false;
};

// What of a config is CLIP's: SigLIP has neither a class token nor a norm before.
struct ClipVisionFamily {
  bool siglip = false;
};

Result<ClipVisionConfig> read_clip_vision_config(const Settings& settings, const ClipVisionFamily& family);

// CLIP's names of the layers of both towers. GGUF has them of pictures.
LayerNames clip_layer_names(const std::string& prefix);

// From the pixels to the last layer's result, without a norm after it. `prefix` is that of Hugging Face's
// tensor names; GGUF's is "v.".
TensorId build_clip_vision(EncoderBuilder& builder, const ClipVisionConfig& config,
                           const std::string& prefix);

// The settings of a tower, an object of config.json; all of config.json if it has no such object. `settings`:
// its class's defaults, which become the object with them, and which the result refers to.
Result<Settings> tower_settings(const ModelFile& file, const char* name, nlohmann::json& settings);

// The only number of a tensor.
Result<float> read_number(const ModelFile& file, std::string_view tensor, float fallback);

// The settings of CLIP's encoder of texts.
Result<EncoderConfig> read_clip_text_config(const Settings& settings, float norm_eps);

// From the tokens to the final norm.
TensorId build_clip_text(EncoderBuilder& builder, const std::string& prefix);

} // namespace pumice
