#pragma once

#include <functional>
#include <vector>

#include "kernel/position/position.h"
#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// The settings that most decoders share. An architecture keeps its own settings elsewhere.
struct DecoderConfig : StackConfig {
  uint32_t original_context = 0; // before rotary scaling extended it; 0: unknown
  bool tied_head = false;        // the head's weight is the embedding table
  RotaryConfig rotary;
  bool neighbouring_in_gguf = false; // rotary pairs are neighbouring rows in GGUF
  bool gguf_needs_head = false;      // GGUF files repeat a tied head
  float gguf_query_scale = 1;        // query weights are multiplied by this in GGUF
  std::vector<uint32_t> windows;     // by layer: positions that a token attends to, with its own; 0: all

  ModelShape shape() const;
  // llama.cpp's converter permutes the rows of queries and keys for its architecture `llama`.
  void set_neighbouring_in_gguf(bool gguf) {
    neighbouring_in_gguf = true;
    if (gguf) rotary.pairs = RotaryPairs::neighbouring;
  }
};

struct DecoderConfigNames : StackConfigNames {
  bool tied_by_default = false;
  bool rotary = true;
  float default_rotary_share = 1; // of a head's dimensions
};

// Reads and checks the config. All windows are 0, and rotary pairs are in Hugging Face's layout (half_split).
Result<DecoderConfig> read_decoder_config(const Settings& settings, const DecoderConfigNames& names = {});

// Sets the windows by config.json's layer_types: layers of type "sliding_attention" get the window, the
// others none. Without the list, `slides` says which layers get it.
Status read_layer_types(const Settings& settings, uint32_t window, DecoderConfig& config,
                        const std::function<bool(uint32_t layer)>& slides);
// Sets Qwen's windows: if use_sliding_window is true, the layers from max_window_layers on get one.
Status read_upper_windows(const Settings& settings, DecoderConfig& config);

std::vector<Hyperparameter> hyperparameters(const DecoderConfig& config);

} // namespace pumice
