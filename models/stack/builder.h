#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/readable_tensors.h"
#include "kernel/attention/attention.h"
#include "kernel/norm/norm.h"
#include "models/builder.h"
#include "models/stack/config.h"

namespace pumice {

struct RotaryConfig;

// The queries, keys and values of one layer's attention.
struct AttentionInputs {
  TensorId query = 0, key = 0, value = 0;
};

// How a layer's attention differs from the default.
struct AttentionStyle {
  bool input_bias = false;
  bool output_bias = false;
  TensorName output = {"self_attn.o_proj", "attn_output"};
  float score_scale = 0;         // 0: 1 / sqrt(head_dim)
  float soft_cap = 0;            // 0: none
  bool head_norms = false;       // RMS norms of each head's query and key
  float head_norm_offset = 0;    // added to their weights
  bool head_norms_after = false; // they come after the rotation
  bool unit_head_norms = false;  // they have no weights
  bool value_norm = false;       // an RMS norm of each head's value, without weights
  bool keys_as_values = false;   // values have no projection: they are the keys before norm and rotation
  TensorName query_norm = {"self_attn.q_norm", "attn_q_norm"};
  TensorName key_norm = {"self_attn.k_norm", "attn_k_norm"};
  const RotaryConfig* rotary = nullptr;            // null: the config's settings
  const RotaryConfig* rotary_in_windows = nullptr; // of an encoder's layers with a window; null: the same
  RelativeBias relative_bias;
  std::optional<WeightId> relative_bias_table;
  // With a relative bias by content: makes its scores of the layer's queries and keys.
  std::function<TensorId(uint32_t layer, const AttentionInputs& inputs)> relative_scores;
  std::optional<WeightId> sinks; // a score for each head; not with a relative bias
  // The positions that each row attends to, so many at most, see chosen_positions.h; not with a relative
  // bias.
  std::optional<TensorId> chosen;
  uint32_t most_chosen = 0;
  bool chunked = false;         // the layer's window is a chunk, see AttentionArgs
  bool whole_pictures = false;  // see AttentionArgs
  bool patch_windows = false;   // see AttentionArgs
  uint32_t run = 0, joined = 1; // see AttentionArgs
};

// The names of the projections of an attention layer.
struct AttentionNames {
  TensorName query, key, value;
  TensorName output;
  TensorName query_norm = {}, key_norm = {}; // layer norms over the whole of the queries and of the keys
  // If query, key and value are one tensor: its name without the suffix of its weight or bias. Where only
  // Hugging Face's file has it, they have their own names in GGUF.
  TensorName fused = {};
  std::string_view fused_weight = ".weight", fused_bias = ".bias";
  bool input_bias = true;            // of query, key and value
  bool key_bias = true;              // of the key, if input_bias is set
  bool neighbouring_in_gguf = false; // queries and keys have their rotary pairs side by side there
  bool output_bias = true;
};

// The tensor names and options of a layer in the form of most encoders and encoder-decoders: attention to its
// own input, in a decoder cross-attention to the encoder's output, and a feed-forward, each with a norm and a
// residual around it.
struct LayerNames {
  std::string hugging_face, gguf; // prefix of all names, with {} for the layer
  // How many layers in turn have the same weights. The prefix's number is that of their first one, divided by
  // this.
  uint32_t layers_sharing = 1;
  AttentionNames attention;
  TensorName attention_norm;
  TensorName attention_norm_again = {}; // of that norm's result and what the layer reads, or none
  std::optional<AttentionNames> cross_attention;
  TensorName cross_attention_norm;
  std::optional<TensorName> gate; // if the feed-forward is gated
  bool fused_gate = false; // `up` holds the gate's rows, then its own; with `gate`, GGUF has them apart
  bool gate_last = false;  // the other way round
  TensorName up, down;
  TensorName feed_forward_norm;
  TensorName attention_scale, feed_forward_scale; // factors of their results' columns, or none
  std::string_view scale_suffix = ".lambda1";     // of the factors' names
  std::optional<TensorName> relative_bias;        // a table of each layer's own for the style's relative bias
  bool feed_forward_bias = true;
  bool up_bias = true; // also of the gate, if feed_forward_bias is set
  // In place of the feed-forward of layers for which it gives something.
  std::function<std::optional<TensorId>(uint32_t layer, TensorId x)> own_feed_forward = nullptr;
  // What follows a layer, of its result.
  std::function<TensorId(uint32_t layer, TensorId x)> after = nullptr;
  bool norm_first = false; // x + f(norm(x)) instead of norm(x + f(x))
  NormKind norm = NormKind::layer;
  bool norm_bias = true;        // of layer norms
  bool first_is_normed = false; // the first layer's attention has no norm: the embeddings have one
};

// Describes a stack of layers. It has what encoders and decoders share.
class StackBuilder : public ModelBuilder {
public:
  StackBuilder(const StackConfig& config, bool gguf, const ModelFile* file);

  // Norms with the config's epsilon.
  TensorId rms_norm(TensorId x, const TensorName& name, float weight_offset = 0);
  TensorId layer_norm(TensorId x, const TensorName& name, bool bias = true);

  // The embeddings of the tokens. The table has a row for each token of the vocabulary; GGUF's is multiplied
  // by `gguf_scale`.
  TensorId embed(const TensorName& name, float scale = 1, float gguf_scale = 1);
  // x + learned positions. The table begins with `offset` unused rows.
  TensorId learned_positions(TensorId x, const TensorName& name, uint32_t offset = 0);

  // Projects x to queries, keys or values with `rows` columns.
  enum class Projection : uint32_t { query, key, value };
  TensorId project_input(TensorId x, const AttentionNames& names, Projection which, uint32_t rows);

  // Stores keys and values in the layer's cache and attends to it, without the output projection.
  virtual TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) = 0;
  // A decoder's cross-attention. The encoder's graph has stored its keys and values.
  TensorId attend_memory(uint32_t layer, TensorId query, const AttentionStyle& style);

  using Sublayer = std::function<TensorId(TensorId x)>;
  // All layers. Each layer's input is added to the hidden states. The result is not, because a final norm may
  // follow.
  TensorId run_layers(TensorId x, const LayerNames& names, const AttentionStyle& style = {});

  // What the host may read of this model beside what all have, see take().
  ReadableTensors& readable() { return readable_; }

  // The embedding's result, then each layer's; the last one after the final norm.
  void hidden_state(TensorId x) { hidden_states_.push_back(x); }
  std::span<const TensorId> hidden_states() const { return hidden_states_; }
  // What the next layer reads: the residual stream, at which a model can be cut.
  void layer_input(TensorId x) { layer_inputs_.push_back(x); }

protected:
  // An attention node, named with the current prefix.
  TensorId attention(std::string_view name, TensorId query, uint32_t cache, AttentionMask mask,
                     uint32_t window, const AttentionStyle& style, std::optional<TensorId> bias_scores = {});

  // "hidden_states.N"; "attentions.N", a layer's attention weights [tokens, heads * positions], and
  // "cross_attentions.N", those of its attention to the encoder's input. `positions`: that its own has.
  void add_stack_tensors(uint32_t ReadableExtent::*positions);

  // "last_hidden_state", which is `last`; a row for each input of the step of "pooled_mean", "pooled_cls"
  // (the first row) and "pooled_last"; and the same of length one: "sentence_embedding_mean" and so on.
  void add_pooled_tensors(TensorId last);

  ReadableTensors readable_;
  std::vector<TensorId> hidden_states_;
  std::vector<TensorId> layer_inputs_;
  std::vector<TensorId> attentions_; // each layer's, before its output projection
  std::vector<TensorId> cross_attentions_;
  WeightView embedding_table_;

private:
  TensorId sublayer(TensorId x, const LayerNames& names, const TensorName* norm, std::string_view residual,
                    const Sublayer& function);
  // y times the layer's factors of this name (Touvron et al., LayerScale, 2021), if it has any.
  TensorId scaled(TensorId y, const TensorName& name, std::string_view suffix);
  TensorId self_attention(uint32_t layer, TensorId x, const AttentionNames& names,
                          const AttentionStyle& style);
  TensorId cross_attention(uint32_t layer, TensorId x, const AttentionNames& names, AttentionStyle style);
  TensorId feed_forward(TensorId x, const LayerNames& names);

  const StackConfig& config_;
};

} // namespace pumice
