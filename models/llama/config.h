#pragma once

#include "io/model_file.h"
#include "kernel/activation.h"
#include "kernel/position.h"

namespace pumice {

// LLaMA 1 to 3, and models of the same shape.
struct LlamaConfig {
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t feed_forward = 0;
  float norm_eps = 0;
  Activation activation = Activation::silu;
  bool attention_bias = false;
  bool feed_forward_bias = false;
  bool tied_head = false; // the embedding table is the head's weight too
  RotaryConfig rotary;

  static Result<LlamaConfig> read(const ModelFile& file);
};

} // namespace pumice
