#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "model/gguf_model.h"
#include "models/encoder/model.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct T5Settings {
  std::string table = "shared"; // Hugging Face's name of the embedding table
  bool gated = false;           // since version 1.1
  bool scaled_output = false;   // before the head, only in version 1.0
  uint32_t buckets = 32;
  uint32_t max_distance = 128;
};

enum class Side { encoder, decoder };

// T5 (Raffel et al. 2020): pre-norm layers without biases or scaled scores, positions only as a bias of the
// scores, whose table all layers of a side share.
LayerNames t5_layer_names(const T5Settings& own, Side side) {
  const bool decoder = side == Side::decoder;
  LayerNames names;
  names.hugging_face = decoder ? "decoder.block.{}.layer." : "encoder.block.{}.layer.";
  names.gguf = decoder ? "dec.blk.{}." : "enc.blk.{}.";
  names.norm = NormKind::rms;
  names.norm_first = true;
  names.attention.query = {"0.SelfAttention.q", "attn_q"};
  names.attention.key = {"0.SelfAttention.k", "attn_k"};
  names.attention.value = {"0.SelfAttention.v", "attn_v"};
  names.attention.output = {"0.SelfAttention.o", "attn_o"};
  names.attention.input_bias = names.attention.output_bias = false;
  names.attention_norm = {"0.layer_norm", "attn_norm"};
  if (decoder) {
    names.cross_attention.emplace();
    names.cross_attention->query = {"1.EncDecAttention.q", "cross_attn_q"};
    names.cross_attention->key = {"1.EncDecAttention.k", "cross_attn_k"};
    names.cross_attention->value = {"1.EncDecAttention.v", "cross_attn_v"};
    names.cross_attention->output = {"1.EncDecAttention.o", "cross_attn_o"};
    names.cross_attention->input_bias = names.cross_attention->output_bias = false;
    names.cross_attention_norm = {"1.layer_norm", "cross_attn_norm"};
  }
  if (own.gated) {
    names.gate = {decoder ? "2.DenseReluDense.wi_0" : "1.DenseReluDense.wi_0", "ffn_gate"};
    names.up = {decoder ? "2.DenseReluDense.wi_1" : "1.DenseReluDense.wi_1", "ffn_up"};
  } else {
    names.up = {decoder ? "2.DenseReluDense.wi" : "1.DenseReluDense.wi", "ffn_up"};
  }
  names.down = {decoder ? "2.DenseReluDense.wo" : "1.DenseReluDense.wo", "ffn_down"};
  names.feed_forward_norm = {decoder ? "2.layer_norm" : "1.layer_norm", "ffn_norm"};
  names.feed_forward_bias = false;
  return names;
}

// One side of the model, from the tokens to the final norm.
TensorId run_side(StackBuilder& builder, const StackConfig& config, const T5Settings& own, Side side) {
  const bool encoder = side == Side::encoder;
  TensorId x = builder.embed({own.table, "token_embd"});
  builder.layer(0, encoder ? "encoder.block.{}.layer." : "decoder.block.{}.layer.",
                encoder ? "enc.blk.{}." : "dec.blk.{}.");
  const WeightView table = builder.tensor({"0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                                          ".weight", own.buckets, config.heads, "attention");
  AttentionStyle style;
  style.score_scale = 1;
  style.relative_bias = {own.buckets, own.max_distance, encoder};
  style.relative_bias_table = builder.weight(table, "attention");
  x = builder.run_layers(x, t5_layer_names(own, side), style);
  builder.prefix(encoder ? "encoder." : "decoder.", encoder ? "enc." : "dec.");
  return builder.rms_norm(x, {"final_layer_norm", "output_norm"});
}

class T5 : public EncoderDecoderModel {
public:
  T5(EncoderConfig encoder, DecoderConfig decoder, bool gguf, T5Settings own)
      : EncoderDecoderModel(std::move(encoder), std::move(decoder), gguf), own_(std::move(own)) {}

  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    const TensorId x = run_side(builder, encoder(), own_, Side::encoder);
    builder.finish(x);
    builder.store_memory(x, t5_layer_names(own_, Side::decoder));
  }

  void build_decoder(DecoderBuilder& builder) const override {
    TensorId x = run_side(builder, decoder(), own_, Side::decoder);
    builder.hidden_state(x);
    if (own_.scaled_output) {
      x = scale(builder.graph(), "scaled_output", x, 1 / std::sqrt(static_cast<float>(decoder().hidden)));
    }
    builder.finish(x, {"lm_head", "output"});
  }

private:
  T5Settings own_;
};

// GGUF has no keys for the activation and for the factor before the head: they follow from the tensors.
Status check_gguf(const ModelFile& file, const T5Settings& own, const DecoderConfig& config) {
  const Activation activation = own.gated ? Activation::gelu_tanh : Activation::relu;
  const bool scaled = !own.gated && config.tied_head;
  if (config.activation == activation && own.scaled_output == scaled) return {};
  return Error{
      Code::unsupported,
      fmt::format("{}: GGUF's t5 models have {} where the feed-forward is {}, and scale the head's input if "
                  "they are not gated and the head is tied; this one differs",
                  file.path(), to_string(activation), own.gated ? "gated" : "not gated")};
}

Result<GgufModel> T5::gguf(const ModelFile& file) const {
  PUMICE_CHECK(check_gguf(file, own_, decoder()));
  EncoderBuilder reads(encoder(), false, &file);
  build_encoder(reads);
  PUMICE_CHECK(reads.status());
  DecoderBuilder writes(decoder(), false, &file);
  build_decoder(writes);
  PUMICE_CHECK(writes.status());
  PUMICE_TRY(const uint32_t start,
             file.fields().u32_or("decoder_start_token_id", 0, decoder().vocabulary - 1, 0));
  GgufModel model;
  model.architecture = "t5";
  model.tensors = reads.gguf_tensors();
  for (const GgufTensor& tensor : writes.gguf_tensors()) { // both sides name what they share
    if (std::ranges::find(model.tensors, tensor.name, &GgufTensor::name) == model.tensors.end()) {
      model.tensors.push_back(tensor);
    }
  }
  model.metadata = {
      {"t5.context_length", encoder().context},
      {"t5.embedding_length", encoder().hidden},
      {"t5.block_count", encoder().layers},
      {"t5.decoder_block_count", decoder().layers},
      {"t5.feed_forward_length", encoder().feed_forward},
      {"t5.attention.head_count", encoder().heads},
      {"t5.attention.key_length", encoder().head_dim},
      {"t5.attention.value_length", encoder().head_dim},
      {"t5.attention.layer_norm_epsilon", encoder().norm_eps},
      {"t5.attention.layer_norm_rms_epsilon", encoder().norm_eps},
      {"t5.attention.relative_buckets_count", own_.buckets},
      {"t5.decoder_start_token_id", start},
      {"t5.vocab_size", decoder().vocabulary},
  };
  return model;
}

class T5Encoder : public EncoderModel {
public:
  T5Encoder(EncoderConfig config, bool gguf, T5Settings own)
      : EncoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.finish(run_side(builder, config(), own_, Side::encoder));
  }

private:
  T5Settings own_;
};

StackConfigNames t5_config_names() {
  StackConfigNames names;
  names.context = {"n_positions", "context_length"};
  names.hidden = {"d_model", "embedding_length"};
  names.layers = {"num_layers", "block_count"};
  names.heads = {"num_heads", "attention.head_count"};
  names.kv_heads = {};
  names.head_dim = {"d_kv", "attention.key_length"};
  names.feed_forward = {"d_ff", "feed_forward_length"};
  names.norm_eps = {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"};
  names.activation = {};
  names.default_context = 512;
  names.default_head_dim = 64;
  names.tied_by_default = true;
  names.rotary = false;
  return names;
}

// Reads feed_forward_proj, such as "relu" or "gated-gelu". GGUF has no key for it, so it is derived from the
// tensors, as in llama.cpp.
Result<Activation> read_feed_forward(const Settings& settings, T5Settings& own) {
  const SettingName name = {"feed_forward_proj", ""};
  if (settings.gguf()) {
    own.gated = settings.file().find("enc.blk.0.ffn_gate.weight");
    return own.gated ? Activation::gelu_tanh : Activation::relu;
  }
  PUMICE_TRY(std::string text, settings.fields().string_or("feed_forward_proj", "relu"));
  own.gated = text.starts_with("gated-");
  if (text == "relu" || text == "gated-relu") return Activation::relu;
  if (text == "gelu") return Activation::gelu;
  if (text == "gated-gelu" || text == "gelu_new" || text == "gated-gelu_new") return Activation::gelu_tanh;
  if (text == "silu" || text == "gated-silu") return Activation::silu;
  return settings.error(
      name, fmt::format("expected one of relu, gelu, gelu_new, silu, or one of them after 'gated-'; "
                        "found '{}'",
                        text));
}

// The distance from which on all biases are equal. GGUF has no key for it. All published models use 128,
// which llama.cpp assumes; for another model, the original config.json may lie beside the file.
Result<uint32_t> read_max_distance(const Settings& settings) {
  constexpr uint32_t default_distance = 128;
  const char* name = "relative_attention_max_distance";
  if (!settings.gguf()) return settings.u32_or({name, ""}, 1, limits::context, default_distance);
  const std::filesystem::path path = path_of(settings.file().path());
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return default_distance; // the file is in memory
  const auto config = ModelFile::open(path.parent_path() / "config.json");
  if (!config.ok() || config->architecture() != "t5") return default_distance;
  return config->fields().u32_or(name, 1, limits::context, default_distance);
}

Result<T5Settings> read_own(const Settings& settings) {
  T5Settings own;
  const ModelFile& file = settings.file();
  const SettingName buckets = {"relative_attention_num_buckets", "attention.relative_buckets_count"};
  PUMICE_TRY(own.buckets, settings.u32_or(buckets, 4, 1 << 16, 32));
  if (own.buckets % 2) {
    return settings.error(buckets, fmt::format("expected an even number; found {}", own.buckets));
  }
  PUMICE_TRY(own.max_distance, read_max_distance(settings));
  // Up to half of the buckets hold a single distance each; the others need larger distances.
  if (own.max_distance <= own.buckets / 2) {
    return Error{Code::invalid_file,
                 fmt::format("{}: field 'relative_attention_max_distance': expected more than half of "
                             "the {} buckets; found {}",
                             file.path(), own.buckets, own.max_distance)};
  }
  if (!file.find("shared.weight") && file.find("encoder.embed_tokens.weight"))
    own.table = "encoder.embed_tokens";
  return own;
}

// Version 1.0 scales the input of its head, which is tied to the embedding table. Newer configs have a
// setting for it.
Result<bool> read_scaled_output(const Settings& settings, const T5Settings& own) {
  if (settings.gguf()) return !own.gated && !settings.file().find("output.weight");
  PUMICE_TRY(bool tied, settings.boolean_or({"tie_word_embeddings", ""}, true));
  return settings.boolean_or({"scale_decoder_outputs", ""}, tied);
}

bool encoder_only(const ModelFile& file) {
  if (file.format() == ModelFile::Format::gguf) return file.architecture() == "t5encoder";
  return file.has_weights() && !file.find("decoder.final_layer_norm.weight");
}

OpenedDefinition open_t5(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names = t5_config_names();
  PUMICE_TRY(T5Settings own, read_own(settings));
  PUMICE_TRY(const Activation activation, read_feed_forward(settings, own));
  EncoderConfig encoder;
  PUMICE_TRY(static_cast<StackConfig&>(encoder), read_stack_config(settings, names));
  encoder.activation = activation;
  encoder.any_length = true;
  if (encoder_only(file)) {
    return std::unique_ptr<ModelDefinition>(
        std::make_unique<T5Encoder>(std::move(encoder), settings.gguf(), std::move(own)));
  }
  const SettingName decoder_layers = {"num_decoder_layers", "decoder_block_count"};
  if (settings.has(decoder_layers)) names.layers = decoder_layers;
  PUMICE_TRY(DecoderConfig decoder, read_decoder_config(settings, names));
  decoder.activation = activation;
  PUMICE_TRY(own.scaled_output, read_scaled_output(settings, own));
  // Configs of version 1.1 say that the head is not tied, even if the file has no other tensor for it.
  if (!settings.gguf() && file.has_weights()) decoder.tied_head = !file.find("lm_head.weight");
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<T5>(std::move(encoder), std::move(decoder), settings.gguf(), std::move(own)));
}

} // namespace

Architectures t5_models() {
  return {{"t5", {"t5"}, {"t5", "t5encoder"}, open_t5}};
}

} // namespace pumice
