#pragma once

#include <string>

#include "models/decoder/builder.h"
#include "models/encoder/builder.h"

namespace pumice {

// GPT-2's settings, for models that it is a part of too.
struct Gpt2Config {
  DecoderConfig decoder;
  std::string prefix; // of Hugging Face's names: "transformer.", or nothing as in the first models published
  bool scale_scores = true;
  bool scale_by_layer = false;
  bool cross_attention = false; // to an encoder's input, in every layer
};

Result<Gpt2Config> read_gpt2_config(const Settings& settings);

void build_gpt2(DecoderBuilder& builder, const Gpt2Config& config);
// What its cross-attention needs of the encoder's result x.
void store_gpt2_memory(EncoderBuilder& builder, const Gpt2Config& config, TensorId x);

Result<std::unique_ptr<ModelDefinition>> open_gpt2(const ModelFile& file);

} // namespace pumice
