#pragma once

#include <string>
#include <vector>

#include "kernel/activation.h"
#include "models/settings.h"

namespace pumice {

// The settings of a stack of layers: of a decoder-only model, of an encoder, or of either side of an
// encoder-decoder.
struct StackConfig {
  uint32_t vocabulary = 0; // 0: the input is not tokens
  uint32_t context = 0;    // positions that the model was trained for
  uint32_t hidden = 0;
  uint32_t embedding = 0; // columns of the tables of embeddings; 0: hidden
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t feed_forward = 0;
  float norm_eps = 0;
  Activation activation = Activation::silu;
  Activation default_activation = Activation::silu; // of files that name none, as all of GGUF
  bool gamma_and_beta = false;                      // names of a norm's weight and bias, from TensorFlow
  std::string root;                                 // prefix of Hugging Face's tensor names, before "model."

  uint32_t embedding_columns() const { return embedding ? embedding : hidden; }
  bool bare = false; // Hugging Face's tensor names begin after "model."

  uint32_t query_rows() const { return heads * head_dim; }
  uint32_t key_rows() const { return kv_heads * head_dim; }
};

// The names of settings, which differ between architectures, and the defaults of settings that the file
// lacks.
struct StackConfigNames {
  SettingName vocabulary = {"vocab_size", "vocab_size"};
  SettingName context = {"max_position_embeddings", "context_length"};
  SettingName hidden = {"hidden_size", "embedding_length"};
  SettingName layers = {"num_hidden_layers", "block_count"};
  SettingName heads = {"num_attention_heads", "attention.head_count"};
  SettingName kv_heads = {"num_key_value_heads", "attention.head_count_kv"};
  SettingName head_dim = {"head_dim", "attention.key_length"};
  SettingName value_dim = {"", "attention.value_length"}; // which has to be head_dim
  SettingName feed_forward = {"intermediate_size", "feed_forward_length"};
  SettingName norm_eps = {"rms_norm_eps", "attention.layer_norm_rms_epsilon"};
  SettingName activation = {"hidden_act", ""};
  uint32_t default_context = 2048;
  uint32_t default_head_dim = 0; // 0: hidden / heads
  float default_norm_eps = 1e-6f;
  Activation default_activation = Activation::silu;
  bool tied_by_default = false;   // of a decoder's head
  bool rotary = true;             // a decoder rotates queries and keys
  float default_rotary_share = 1; // of a head's dimensions

  // The heads divide the columns equally: there is no setting for a head's size or for the number of key
  // heads.
  void set_heads_share_columns() { kv_heads = head_dim = {}; }
  bool heads_share_columns() const { return kv_heads.hugging_face.empty() && head_dim.hugging_face.empty(); }
};

// The names of the classifier's labels, in order: id2label or, if it is absent, num_labels default names. The
// rows of `head`, its last matrix, say how many there are; those without a name get a default one.
Result<std::vector<std::string>> read_labels(const Settings& settings, const TensorView* head = nullptr);

Result<StackConfig> read_stack_config(const Settings& settings, const StackConfigNames& names);

} // namespace pumice
