#pragma once

#include <functional>
#include <string_view>

#include "models/decoder/config.h"
#include "models/stack/builder.h"

namespace pumice {

// The norms around a block's sublayers. Where there is no name there is no norm.
struct BlockNorms {
  TensorName attention_input, attention_result;
  TensorName feed_forward_input, feed_forward_result;
};

// LLaMA's names, the same where GGUF calls the second norm otherwise, those where it is missing, OLMo 2's and
// Gemma 2's.
inline constexpr BlockNorms norms_before = {
    {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "ffn_norm"}, {}};
inline constexpr BlockNorms norms_before_renamed = {
    {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "post_attention_norm"}, {}};
inline constexpr BlockNorms one_norm = {norms_before.attention_input, {}, {}, {}};
inline constexpr BlockNorms norms_after = {{},
                                           {"post_attention_layernorm", "post_attention_norm"},
                                           {},
                                           {"post_feedforward_layernorm", "post_ffw_norm"}};
inline constexpr BlockNorms norms_around = {{"input_layernorm", "attn_norm"},
                                            {"post_attention_layernorm", "post_attention_norm"},
                                            {"pre_feedforward_layernorm", "ffn_norm"},
                                            {"post_feedforward_layernorm", "post_ffw_norm"}};

// The names of a gated feed-forward.
struct GatedNames {
  TensorName gate = {"mlp.gate_proj", "ffn_gate"};
  TensorName up = {"mlp.up_proj", "ffn_up"};
  TensorName down = {"mlp.down_proj", "ffn_down"};
  std::string_view result = "gated"; // the node's of activation(gate(x)) * up(x)
};

// The names of the parts of a decoder around its blocks.
struct DecoderNames {
  TensorName embedding = {"model.embed_tokens", "token_embd"};
  std::string_view layers = "model.layers.{}."; // prefix of a layer's names, with {} for its number
  TensorName norm = {"model.norm", "output_norm"};
  TensorName head = {"lm_head", "output"};
  bool head_bias = false;
  TensorName positions = {};      // a table of learned positions, or none
  uint32_t first_position = 0;    // the table's row of the first one
  TensorName embedding_norm = {}; // a norm of the embeddings, or none
};

// For the style of a layer without rotary positions, in a model whose other layers have them.
inline const RotaryConfig no_rotary = {};

// Describes a decoder. It has the blocks that most decoders share.
class DecoderBuilder : public StackBuilder {
public:
  // With `reads`, the graph is that of a text reader (ModelDefinition::reading_graph).
  DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file, bool reads = false);

  const DecoderConfig& config() const { return config_; }
  void layer(uint32_t layer, std::string_view hugging_face = "model.layers.{}.");

  // A norm of the config's kind.
  TensorId norm(TensorId x, const TensorName& name);
  // A layer norm of each head, by a tensor [heads, head_dim], without biases.
  TensorId head_layer_norm(TensorId x, const TensorName& name);

  // Queries, keys and values by separate projections with LLaMA's names; only queries in a layer that attends
  // to the keys and values of another.
  AttentionInputs query_key_value(TensorId x, const AttentionStyle& style);
  // The same by one tensor, which consists of `groups` groups in Hugging Face's file; see fused_tensor().
  // Without a name in GGUF, files of GGUF have the three.
  AttentionInputs fused_query_key_value(TensorId x, const TensorName& name, uint64_t groups, bool bias);
  // Rotates queries and keys if the config says so, stores keys and values in the cache, and attends.
  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) override;
  // attend() and the output projection.
  TensorId attend_and_project(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style);

  // down(activation(gate(x)) * up(x)) with `rows` rows of gate and up.
  TensorId gated_feed_forward(TensorId x, const GatedNames& names, uint32_t rows, bool bias = false);
  // The same where one tensor holds gate and up.
  TensorId fused_gated_feed_forward(TensorId x, const TensorName& name, const TensorName& down);
  // down(relu(up(x))^2) with `rows` rows of up.
  TensorId squared_feed_forward(TensorId x, const TensorName& up, const TensorName& down, uint32_t rows,
                                bool bias = false);
  // down(activation(up(x))).
  TensorId plain_feed_forward(TensorId x, const TensorName& up, const TensorName& down, bool bias);

  // y = x + attention(x), then y + feed_forward(y), with norms of what a sublayer reads and gives.
  TensorId block(TensorId x, const BlockNorms& norms, const Sublayer& attention,
                 const Sublayer& feed_forward);
  // x + attention(x) + feed_forward(x). Without a norm of its own the feed-forward reads what attention
  // reads.
  TensorId parallel_block(TensorId x, const BlockNorms& norms, const Sublayer& attention,
                          const Sublayer& feed_forward);

  // The head, for the rows whose logits are wanted. `x` is the result of the final norm.
  void finish(TensorId x, const TensorName& head, const WeightView* bias = nullptr);
  // The same where the head's name has the current prefix.
  void give_logits(TensorId x, const TensorName& head, const WeightView* bias = nullptr);
  // A whole decoder: embedding, `block` for each layer, a final norm, the head.
  using Block = std::function<TensorId(uint32_t layer, TensorId x)>;
  void decode(const Block& block, const DecoderNames& names = {});
  // The same from the embeddings on.
  void decode_embedded(TensorId x, const Block& block, const DecoderNames& names);
  // Embeddings, with the rows of pictures in their places if the model sees.
  TensorId with_pictures(TensorId x);

  bool reads() const { return reads_; }
  // The positions that were chosen last: layers may share them.
  void keep_chosen(TensorId chosen) { chosen_ = chosen; }
  std::optional<TensorId> chosen() const { return chosen_; }

  // The number of a recurrent operation's state. They are counted as they are described.
  uint32_t next_state() { return states_++; }

  // What may be read: "logits", "log_likelihoods", the stack's tensors and what the architecture has added.
  DecoderGraph take();
  // The same of a text reader: what add_pooled_tensors() adds, "logits" of each input's last token, and the
  // stack's tensors.
  EncoderGraph take_reader();

private:
  std::vector<MatrixInput> add_matrix_inputs();
  // The cache that a layer's keys and values are in.
  uint32_t cache_of(uint32_t layer) const {
    return reads_ && config_.reads_with_one_cache() ? 0 : config_.cache_of(layer);
  }
  AttentionMask mask() const {
    return config_.both_ways ? AttentionMask::bidirectional : AttentionMask::causal;
  }
  void finish_reader(TensorId x, const TensorName& head, const WeightView* bias);
  bool shares_cache() const { return config_.cache_of(layer_) != layer_; }
  LayerSizes sizes() const { return config_.sizes_of(layer_); }
  uint32_t query_rows() const { return config_.heads * sizes().head_dim; }
  uint32_t key_rows() const { return sizes().kv_heads * sizes().head_dim; }
  TensorId rotate_and_store(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style);
  TensorId norm_if_named(TensorId x, const TensorName& name);
  // x + y, with the config's factor for y.
  TensorId residual(TensorId x, TensorId y, const TensorName& result_norm, std::string_view name);

  const DecoderConfig& config_;
  uint32_t layer_ = 0; // the one that is described
  uint32_t states_ = 0;
  TensorId logits_ = 0;
  const bool reads_;
  TensorId last_hidden_state_ = 0; // of a text reader
  std::optional<TensorId> given_;  // rows of pictures
  std::optional<TensorId> chosen_;
};

} // namespace pumice
