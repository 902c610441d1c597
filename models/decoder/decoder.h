#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/decoder/builder.h"
#include "models/decoder/mixture.h"
#include "models/registry.h"

namespace pumice {

// One tensor that holds queries, keys and values, see DecoderBuilder::fused_query_key_value().
struct FusedInputs {
  TensorName name;
  uint32_t groups = 1;
};

// What the layer that predicts further tokens has beside a block. By itself as DeepSeek-V3's (DeepSeek-AI
// 2024, multi-token prediction): behind the prefix of a layer.
struct PredictionNames {
  std::string_view hugging_face = {}; // a prefix of its own
  std::string_view block = {};        // and behind it, the block's
  TensorName embedding = {"embed_tokens", "nextn.embed_tokens"};
  TensorName embedding_norm = {"enorm", "nextn.enorm"}, hidden_norm = {"hnorm", "nextn.hnorm"};
  TensorName projection = {"eh_proj", "nextn.eh_proj"};
  TensorName norm = {"shared_head.norm", "nextn.shared_head_norm"};
  TensorName head = {"shared_head.head", "nextn.shared_head_head"};
  bool gives_normed = false; // for further guesses it reads what its norm gave, and not what the block did
};

// A decoder-only model, of which an entry of the table says how it differs from LLaMA: blocks of attention
// with rotary positions and a gated feed-forward, each after a norm. Everything that the runtime needs comes
// from this.
struct Decoder {
  DecoderConfig config;
  DecoderNames names;
  BlockNorms norms = norms_before;
  bool parallel = false; // attention and feed-forward read the same input

  // Attention. In layers without a window keys_as_values counts, in those with one `chunked`.
  AttentionStyle style;
  std::optional<FusedInputs> fused_inputs;
  bool whole_norms = false;      // norms over the whole of the queries and of the keys
  bool head_layer_norms = false; // layer norms of each head's query and key, whose weights differ by head
  float most_input = 0; // the most that queries, keys and values may be, and -most the least; 0: any number
  TensorName attention_gate; // what attention gives is multiplied by the sigmoid of this projection; or none
  TensorName inner_norm;     // a norm of what attention gives, before its output projection; or none
  TensorName sinks;          // a score for each head; or none
  std::vector<bool> rotated; // by layer; empty: all are
  std::optional<RotaryConfig> rotary_in_windows;

  // The feed-forward, or a mixture of experts in the layers that are sparse.
  GatedNames feed_forward; // without a name for the gate it has none
  TensorName fused_gate;   // one tensor that holds gate and up; or none
  bool feed_forward_bias = false;
  std::optional<MixtureConfig> mixture;
  MixtureNames experts;

  // Code in place of attention, of attention in layers that have none (DecoderConfig::attends), of the
  // feed-forward, and of all.
  using Part = std::function<TensorId(DecoderBuilder& builder, uint32_t layer, TensorId x)>;
  Part own_attention, mixer, own_feed_forward;
  std::function<void(const Decoder& decoder, DecoderBuilder& builder)> own_build;

  std::vector<Hyperparameter> shown; // besides the common ones
  std::string_view gguf_name;        // the first of the entry's; empty: llama.cpp has none
  // GGUF's keys besides the common ones, without the architecture's name in front; null leaves one out.
  nlohmann::json gguf_metadata = nlohmann::json::object();
  nlohmann::json gguf_bare_metadata = nlohmann::json::object(); // keys that never have it
  std::optional<Error> gguf_refusal;                            // why the model has no GGUF form
  bool gguf_predicts = false; // GGUF's form has the layer that predicts further tokens
  PredictionNames prediction;

  // What an entry reads.

  // Biases of queries, keys, values and the output, by a setting of config.json.
  Status read_bias(const Settings& settings, std::string_view name, bool fallback = false);
  // Biases by the settings of config.json; GGUF's files have the tensors or have them not.
  Status read_biases(const Settings& settings, const BiasNames& names = {});
  // The same, and they are shown.
  Status read_shown_biases(const Settings& settings, const BiasNames& names = {});
  // One window for all layers.
  Status read_window(const Settings& settings, const SettingName& name, uint32_t least = 0);
  // most_input, which is refused below 0.
  Status read_most_input(const Settings& settings, const SettingName& name);
  // A feed-forward without a gate, of the square of ReLU; after the biases have been read.
  Status set_squared_relu(const Settings& settings);
  // Sets the mixture, after all of it has been read, and refuses what llama.cpp would compute otherwise.
  void set_mixture(const Settings& settings, MixtureConfig read, const GgufMixtureRule& rule);
  // There is no GGUF form, unless there is already a reason: "GGUF's llama models {what}".
  void refuse_gguf(const Settings& settings, std::string_view field, std::string_view what);

  // What the graph is made of.

  void build(DecoderBuilder& builder) const;
  TensorId block(DecoderBuilder& builder, uint32_t layer, TensorId x) const;

private:
  AttentionStyle style_of(uint32_t layer) const;
  TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x, const AttentionStyle& style) const;
  TensorId feed(DecoderBuilder& builder, uint32_t layer, TensorId x) const;
};

// What predicts further tokens, with what the file has of the first of its layers that were trained to:
// ModelDefinition::prediction_layer().
Result<Decoder> prediction_decoder(const Decoder& whole, const ModelFile& file, bool gguf);

// An entry: its names, those of its settings, and what sets all that is special once the config is read.
using DescribeDecoder = Status (*)(const Settings& settings, Decoder& decoder);
Architecture decoder(std::string_view name, std::vector<std::string_view> hugging_face_model_types,
                     std::vector<std::string_view> gguf_architectures, const StackConfigNames& names,
                     DescribeDecoder describe);

// For a decoder that is read by code of its own.
std::unique_ptr<ModelDefinition> make_decoder(Decoder decoder, const Settings& settings);

} // namespace pumice
