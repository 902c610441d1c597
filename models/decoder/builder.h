#pragma once

#include <functional>
#include <string_view>

#include "models/decoder/config.h"
#include "models/stack/builder.h"

namespace pumice {

// Describes a decoder. It has the blocks that most decoders share.
class DecoderBuilder : public StackBuilder {
public:
  DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file);

  const DecoderConfig& config() const { return config_; }
  void layer(uint32_t layer, std::string_view hugging_face = "model.layers.{}.");

  // Queries, keys and values by separate projections with LLaMA's names.
  AttentionInputs query_key_value(TensorId x, const AttentionStyle& style);
  // Rotates queries and keys if the config says so, stores keys and values in the cache, and attends.
  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) override;
  // query_key_value(), attend() and the output projection, with LLaMA's names.
  TensorId self_attention(uint32_t layer, TensorId x, const AttentionStyle& style);
  // down(activation(gate(x)) * up(x)), with LLaMA's names.
  TensorId gated_feed_forward(TensorId x, bool bias = false);

  // y = x + attention(norm(x)), then y + feed_forward(norm(y)), with LLaMA's names.
  TensorId pre_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                          float norm_offset = 0);

  // The same with further norms after the sublayers, with Gemma's names.
  TensorId sandwich_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                               float norm_offset = 0);

  // The head, for the rows whose logits are wanted. `x` is the result of the final norm.
  void finish(TensorId x, const TensorName& head, const WeightView* bias = nullptr, float soft_cap = 0);
  // A whole decoder in the common form: embedding, `block` for each layer, a final RMS norm, the head.
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
