#pragma once

#include <functional>
#include <vector>

#include "kernel/position/position.h"
#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// What a decoder's config says beside that. An architecture's own settings come beside it.
struct DecoderConfig : StackConfig {
  uint32_t original_context = 0; // before rotary scaling made it longer; 0: not said
  bool tied_head = false;        // the embedding table is the head's weight too
  RotaryConfig rotary;
  bool neighbouring_in_gguf = false; // GGUF has the rows of queries and keys so that neighbours turn together
  bool gguf_needs_head = false;      // GGUF repeats a tied head
  float gguf_query_scale = 1; // what GGUF's query weights are multiplied by, for a score scale it cannot say
  std::vector<uint32_t> windows; // by layer: positions that a token sees, its own included; 0: all

  ModelShape shape() const;
  // llama.cpp's converter permutes them for its architecture `llama`.
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

// Reads and checks it. No layer has a window yet, and rotary pairs are Hugging Face's.
Result<DecoderConfig> read_decoder_config(const Settings& settings, const DecoderConfigNames& names = {});

// config.json's layer_types: the layers named "sliding_attention" get the window, the others none. Without
// the list `slides` says which do.
Status read_layer_types(const Settings& settings, uint32_t window, DecoderConfig& config,
                        const std::function<bool(uint32_t layer)>& slides);
// Qwen's windows: with use_sliding_window, in the layers from max_window_layers on.
Status read_upper_windows(const Settings& settings, DecoderConfig& config);

std::vector<Hyperparameter> hyperparameters(const DecoderConfig& config);

} // namespace pumice
