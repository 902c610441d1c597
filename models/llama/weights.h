#pragma once

#include "models/architecture.h"
#include "models/llama/config.h"

namespace pumice {

// Names of LLaMA's tensors in each file format; those of a layer are preceded by layer_prefix, formatted with
// its number.
struct LlamaNames {
  const char* embedding;
  const char* final_norm;
  const char* head;
  const char* layer_prefix;
  const char* attention_norm;
  const char* query;
  const char* key;
  const char* value;
  const char* attention_output;
  const char* feed_forward_norm;
  const char* gate;
  const char* up;
  const char* down;
};

inline constexpr LlamaNames llama_hugging_face_names = {
    "model.embed_tokens",
    "model.norm",
    "lm_head",
    "model.layers.{}.",
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
};
inline constexpr LlamaNames llama_gguf_names = {
    "token_embd", "output_norm", "output",   "blk.{}.",  "attn_norm", "attn_q",   "attn_k",
    "attn_v",     "attn_output", "ffn_norm", "ffn_gate", "ffn_up",    "ffn_down",
};

std::vector<WeightSpec> llama_weights(const LlamaConfig& config, const LlamaNames& names);

} // namespace pumice
