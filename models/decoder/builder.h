#pragma once

#include <functional>
#include <string_view>

#include "models/builder.h"
#include "models/decoder/config.h"

namespace pumice {

// How a layer's attention differs from the plainest.
struct AttentionStyle {
  bool input_bias = false;
  bool output_bias = false;
  float score_scale = 0;                // 0: 1 / sqrt(head_dim)
  float soft_cap = 0;                   // 0: none
  bool head_norms = false;              // RMS norms of each head's query and key
  float head_norm_offset = 0;           // added to their weights
  const RotaryConfig* rotary = nullptr; // null: the config's
};

// The projections of one layer's attention, however a file stores them.
struct AttentionInputs {
  TensorId query = 0, key = 0, value = 0;
};

// Describes a decoder-only model, with what most of them have in common.
class DecoderBuilder : public ModelBuilder {
public:
  DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file);

  const DecoderConfig& config() const { return config_; }
  void layer(uint32_t layer, std::string_view hugging_face = "model.layers.{}.");

  // With the config's epsilon.
  TensorId rms_norm(TensorId x, const TensorName& name, float weight_offset = 0);
  TensorId layer_norm(TensorId x, const TensorName& name);
  // Separate projections under LLaMA's names.
  AttentionInputs query_key_value(TensorId x, const AttentionStyle& style);
  // Rotates, stores and attends; the output projection is not in it.
  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style);
  // Separate projections, attention and the output projection, under LLaMA's names.
  TensorId self_attention(uint32_t layer, TensorId x, const AttentionStyle& style);
  // LLaMA's names: gate, up, down.
  TensorId gated_feed_forward(TensorId x, bool bias = false);

  using Sublayer = std::function<TensorId(TensorId x)>;
  // x + attention(norm(x)), and to that its own feed_forward(norm), under LLaMA's names.
  TensorId pre_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                          float norm_offset = 0);

  // The same with norms after the sublayers too, under Gemma's names.
  TensorId sandwich_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                               float norm_offset = 0);

  TensorId embed(const TensorName& name, float scale = 1);
  void hidden_state(TensorId x) { result_.hidden_states.push_back(x); }
  // The head over the rows whose logits are wanted. `x` has had the final norm.
  void finish(TensorId x, const TensorName& head, bool bias = false, float soft_cap = 0);
  // The whole of the plainest: embedding, `block` for each layer, a final RMS norm, the head.
  void decode(const std::function<TensorId(uint32_t layer, TensorId x)>& block, float embedding_scale = 1,
              float norm_offset = 0, float logit_soft_cap = 0);

  DecoderGraph take();

private:
  const DecoderConfig& config_;
  DecoderGraph result_;
  WeightView embedding_table_;
};

} // namespace pumice
