#pragma once

#include <functional>
#include <string_view>

#include "models/decoder/config.h"
#include "models/stack/builder.h"

namespace pumice {

// Describes a decoder, with what most of them have in common.
class DecoderBuilder : public StackBuilder {
public:
  DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file);

  const DecoderConfig& config() const { return config_; }
  void layer(uint32_t layer, std::string_view hugging_face = "model.layers.{}.");

  // Separate projections under LLaMA's names.
  AttentionInputs query_key_value(TensorId x, const AttentionStyle& style);
  // Rotates where the config says so, stores and attends.
  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) override;
  // Separate projections, attention and the output projection, under LLaMA's names.
  TensorId self_attention(uint32_t layer, TensorId x, const AttentionStyle& style);
  // LLaMA's names: gate, up, down.
  TensorId gated_feed_forward(TensorId x, bool bias = false);

  // x + attention(norm(x)), and to that its own feed_forward(norm), under LLaMA's names.
  TensorId pre_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                          float norm_offset = 0);

  // The same with norms after the sublayers too, under Gemma's names.
  TensorId sandwich_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                               float norm_offset = 0);

  // The head over the rows whose logits are wanted. `x` has had the final norm.
  void finish(TensorId x, const TensorName& head, const WeightView* bias = nullptr, float soft_cap = 0);
  // The whole of the plainest: embedding, `block` for each layer, a final RMS norm, the head.
  void decode(const std::function<TensorId(uint32_t layer, TensorId x)>& block, float embedding_scale = 1,
              float norm_offset = 0, float logit_soft_cap = 0);

  // What may be read: "logits", "log_likelihoods", the stack's tensors and what the architecture has added.
  DecoderGraph take();

private:
  TensorId rotate_and_store(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style);

  const DecoderConfig& config_;
  TensorId logits_ = 0;
};

} // namespace pumice
