#pragma once

#include <functional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernel/norm/norm.h"
#include "kernel/position/position.h"
#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// How all norms of a decoder are made, except those of heads.
struct NormStyle {
  NormKind kind = NormKind::rms;
  bool weight = true;      // of a layer norm
  bool bias = true;        // the same
  float weight_offset = 0; // added to the weights that Hugging Face's files have; GGUF's have it already
};

// The sizes in which layers may differ.
struct LayerSizes {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t feed_forward = 0;
};

// The settings that most decoders share. An architecture keeps its own settings elsewhere.
struct DecoderConfig : StackConfig {
  uint32_t original_context = 0; // before rotary scaling extended it; 0: unknown
  bool tied_head = false;        // the head's weight is the embedding table
  RotaryConfig rotary;
  bool neighbouring_in_gguf = false; // rotary pairs are neighbouring rows in GGUF
  bool gguf_needs_head = false;      // GGUF files repeat a tied head
  float gguf_query_scale = 1;        // query weights are multiplied by this in GGUF
  bool gguf_folds_factors = false;   // GGUF's tables are multiplied by the factors of embeddings and logits
  NormStyle norm;
  float embedding_scale = 1;
  float residual_scale = 1; // of what a sublayer adds to its input
  float logit_scale = 1;
  float logit_soft_cap = 0;            // 0: none
  std::vector<uint32_t> windows;       // by layer: positions that a token attends to, with its own; 0: all
  std::vector<bool> attends;           // by layer: whether it has attention; empty: all have
  std::vector<uint32_t> states;        // see ModelShape
  std::vector<LayerSizes> layer_sizes; // by layer; empty: all layers have the sizes in StackConfig
  bool values_are_keys = false;        // in the cache, see CacheLayout
  bool both_ways = false;              // it is an encoder: tokens see those after them too
  std::vector<std::string> labels;     // of a classifier of the last token, in place of the head; empty: none
  std::optional<PictureTokens> pictures; // which its prompts may have
  // Of what some layers keep of each position beside keys and values; they follow those of the layers.
  std::vector<LayerCache> further_caches;
  uint32_t most_chosen = 0;    // positions that a row attends to; 0: all that it sees
  uint32_t sharing_layers = 0; // the last so many layers have no keys and values of their own, see cache_of()

  LayerSizes sizes_of(uint32_t layer) const;
  // The layer whose keys and values a layer attends to: itself, or the last one with keys and values of its
  // own that has the same window.
  uint32_t cache_of(uint32_t layer) const;

  ModelShape shape() const;
  EncoderShape reading_shape() const; // see ModelDefinition
  // Where a layer's keys and values lie while the decoder reads whole texts: one cache for all layers, or one
  // for each where they differ or share.
  bool reads_with_one_cache() const { return layer_sizes.empty() && sharing_layers == 0; }
  bool attends_in(uint32_t layer) const { return attends.empty() || attends[layer]; }
  // llama.cpp's converter permutes the rows of queries and keys for its architecture `llama`.
  void set_neighbouring_in_gguf(bool gguf) {
    neighbouring_in_gguf = true;
    if (gguf) rotary.pairs = RotaryPairs::neighbouring;
  }
};

// Reads and checks the config. All windows are 0, and rotary pairs are in Hugging Face's layout (half_split).
Result<DecoderConfig> read_decoder_config(const Settings& settings, const StackConfigNames& names = {});

// Reads how many of the last layers share keys and values. Needs the windows.
Status read_sharing_layers(const Settings& settings, DecoderConfig& config);

// Sets the windows by config.json's layer_types: layers of type "sliding_attention" get the window, the
// others none. Without the list, `slides` says which layers get it.
Status read_layer_types(const Settings& settings, uint32_t window, DecoderConfig& config,
                        const std::function<bool(uint32_t layer)>& slides);
// Sets which layers have attention: by config.json's layer_types, where they are of type `attention` and all
// others of type `other`; without the list, as `attends` says; in GGUF, those with heads of keys.
Status read_attention_layers(const Settings& settings, std::string_view attention, std::string_view other,
                             const std::function<bool(uint32_t layer)>& attends, DecoderConfig& config);
// Leaves out the last layers of a GGUF file, which predict further tokens.
Status drop_prediction_layers(const Settings& settings, DecoderConfig& config);
// Sets Qwen's windows: if use_sliding_window is true, the layers from max_window_layers on get one.
Status read_upper_windows(const Settings& settings, DecoderConfig& config);
// Sets the windows by GGUF's attention.sliding_window_pattern: a value for each layer, or a period of which
// the last layer has none; without it, `period` is that.
Status read_gguf_windows(const Settings& settings, uint32_t window, uint32_t period, DecoderConfig& config);
// Sets the windows of a model where one of `period` layers has none, by either format's settings.
Status read_periodic_windows(const Settings& settings, uint32_t default_window, uint32_t period,
                             DecoderConfig& config);
// The largest window of all layers; 0: none has one.
uint32_t largest_window(const DecoderConfig& config);
// GGUF's keys of the window and of which layers have it.
nlohmann::json gguf_windows(const DecoderConfig& config);

// GGUF's key of which layers keep a state, a value for each layer.
inline constexpr const char* recurrent_layers_key = "attention.recurrent_layers";

// The names in config.json of which projections have biases: queries, keys and values; the output, or without
// a name as they; the feed-forward, or without a name none.
struct BiasNames {
  std::string_view attention = "attention_bias", output = {}, feed_forward = "mlp_bias";
  bool attention_by_default = false;
};
inline constexpr BiasNames attention_biases = {.feed_forward = {}};

std::vector<Hyperparameter> hyperparameters(const DecoderConfig& config);

} // namespace pumice
