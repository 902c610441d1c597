#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernel/activation.h"
#include "kernel/position.h"
#include "models/decoder/settings.h"

namespace pumice {

// What every decoder-only model's config says. An architecture's own settings come beside it.
struct DecoderConfig {
  uint32_t vocabulary = 0;
  uint32_t context = 0;          // positions it was trained for
  uint32_t original_context = 0; // before rotary scaling made it longer; 0: not said
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t feed_forward = 0;
  float norm_eps = 0;
  Activation activation = Activation::silu;
  bool tied_head = false; // the embedding table is the head's weight too
  RotaryConfig rotary;
  bool neighbouring_in_gguf = false; // GGUF has the rows of queries and keys so that neighbours turn together
  bool gguf_needs_head = false;      // GGUF repeats a tied head
  float gguf_query_scale = 1; // what GGUF's query weights are multiplied by, for a score scale it cannot say
  std::string root;           // what Hugging Face's tensor names begin with, before "model."
  std::vector<uint32_t> windows; // by layer: positions that a token sees, its own included; 0: all

  // llama.cpp's converter permutes them for its architecture `llama`.
  void set_neighbouring_in_gguf(bool gguf) {
    neighbouring_in_gguf = true;
    if (gguf) rotary.pairs = RotaryPairs::neighbouring;
  }
  uint32_t query_rows() const { return heads * head_dim; }
  uint32_t key_rows() const { return kv_heads * head_dim; }
};

// The names of what differs between architectures, and what counts where the file does not say.
struct DecoderConfigNames {
  SettingName context = {"max_position_embeddings", "context_length"};
  SettingName hidden = {"hidden_size", "embedding_length"};
  SettingName layers = {"num_hidden_layers", "block_count"};
  SettingName heads = {"num_attention_heads", "attention.head_count"};
  SettingName kv_heads = {"num_key_value_heads", "attention.head_count_kv"};
  SettingName head_dim = {"head_dim", "attention.key_length"};
  SettingName feed_forward = {"intermediate_size", "feed_forward_length"};
  SettingName norm_eps = {"rms_norm_eps", "attention.layer_norm_rms_epsilon"};
  SettingName activation = {"hidden_act", ""};
  uint32_t default_context = 2048;
  uint32_t default_head_dim = 0; // 0: hidden / heads
  float default_norm_eps = 1e-6f;
  Activation default_activation = Activation::silu;
  bool tied_by_default = false;
  bool rotary = true;
  float default_rotary_share = 1; // of a head's dimensions
};

// Reads and checks it. No layer has a window yet, and rotary pairs are Hugging Face's.
Result<DecoderConfig> read_decoder_config(const Settings& settings, const DecoderConfigNames& names = {});

// config.json's layer_types: the layers named "sliding_attention" get the window, the others none. Without
// the list `slides` says which do.
Status read_layer_types(const Settings& settings, uint32_t window, DecoderConfig& config,
                        const std::function<bool(uint32_t layer)>& slides);
// Qwen's windows: with use_sliding_window, in the layers from max_window_layers on.
Status read_upper_windows(const Settings& settings, DecoderConfig& config);

} // namespace pumice
