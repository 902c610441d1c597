#pragma once

#include <string>

#include "models/decoder/builder.h"
#include "models/encoder/builder.h"

namespace pumice {

// GPT-2's settings. Other models may contain a GPT-2 too.
struct Gpt2Config {
  DecoderConfig decoder;
  std::string prefix; // of tensor names: "transformer.", or empty in the oldest files
  bool scale_scores = true;
  bool scale_by_layer = false;
  bool cross_attention = false; // to an encoder's input, in every layer
};

Result<Gpt2Config> read_gpt2_config(const Settings& settings);

void build_gpt2(DecoderBuilder& builder, const Gpt2Config& config);
// Stores the keys and values of its cross-attention, computed from the encoder's result x.
void store_gpt2_memory(EncoderBuilder& builder, const Gpt2Config& config, TensorId x);

} // namespace pumice
