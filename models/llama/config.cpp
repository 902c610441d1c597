#include "models/llama/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice {

namespace {

constexpr uint32_t most_layers = 1000;
constexpr uint32_t most_heads = 4096;
constexpr uint32_t most_columns = 1 << 20;
constexpr uint32_t most_tokens = 1 << 24;
constexpr uint32_t longest_context = 1 << 24;
constexpr uint32_t largest_head = 256; // of the attention kernels

// A rope_scaling or rope_parameters object.
Status read_scaling(const Fields& scaling, RotaryConfig& rotary) {
  PUMICE_TRY(std::string type, scaling.string_or("rope_type", ""));
  const char* field = "rope_type";
  if (type.empty()) {
    field = "type"; // the name it had before
    PUMICE_TRY(type, scaling.string_or("type", "default"));
  }
  if (type == "default") return {};
  if (type == "linear") {
    rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(rotary.factor, scaling.f32("factor", 1e-3f, 1e6f));
    return {};
  }
  if (type == "llama3") {
    rotary.scaling = RotaryScaling::llama3;
    PUMICE_TRY(rotary.factor, scaling.f32("factor", 1e-3f, 1e6f));
    PUMICE_TRY(rotary.low_freq_factor, scaling.f32("low_freq_factor", 1e-3f, 1e6f));
    PUMICE_TRY(rotary.high_freq_factor, scaling.f32("high_freq_factor", 1e-3f, 1e6f));
    PUMICE_TRY(rotary.original_context, scaling.u32("original_max_position_embeddings", 1, longest_context));
    if (rotary.high_freq_factor <= rotary.low_freq_factor) {
      return scaling.error("high_freq_factor", "expected more than low_freq_factor");
    }
    return {};
  }
  return scaling.error(field, fmt::format("expected one of default, linear, llama3; found '{}'", type));
}

Result<Activation> read_activation(const Fields& fields) {
  PUMICE_TRY(std::string name, fields.string_or("hidden_act", "silu"));
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  return fields.error("hidden_act",
                      fmt::format("expected one of silu, gelu, gelu_new, gelu_pytorch_tanh, relu; "
                                  "found '{}'",
                                  name));
}

Result<LlamaConfig> read_hugging_face(const ModelFile& file) {
  const Fields fields = file.fields();
  LlamaConfig config;
  PUMICE_TRY(config.vocabulary, fields.u32("vocab_size", 1, most_tokens));
  PUMICE_TRY(config.context, fields.u32_or("max_position_embeddings", 1, longest_context, 2048));
  PUMICE_TRY(config.hidden, fields.u32("hidden_size", 1, most_columns));
  PUMICE_TRY(config.layers, fields.u32("num_hidden_layers", 1, most_layers));
  PUMICE_TRY(config.heads, fields.u32("num_attention_heads", 1, most_heads));
  PUMICE_TRY(config.kv_heads, fields.u32_or("num_key_value_heads", 1, most_heads, config.heads));
  PUMICE_TRY(config.head_dim, fields.u32_or("head_dim", 1, largest_head, config.hidden / config.heads));
  PUMICE_TRY(config.feed_forward, fields.u32("intermediate_size", 1, most_columns));
  PUMICE_TRY(config.norm_eps, fields.f32_or("rms_norm_eps", 0.0f, 1.0f, 1e-6f));
  PUMICE_TRY(config.activation, read_activation(fields));
  PUMICE_TRY(config.attention_bias, fields.boolean_or("attention_bias", false));
  PUMICE_TRY(config.feed_forward_bias, fields.boolean_or("mlp_bias", false));
  PUMICE_TRY(config.tied_head, fields.boolean_or("tie_word_embeddings", false));
  PUMICE_TRY(config.rotary.base, fields.f32_or("rope_theta", 1.0f, 1e9f, 10000.0f));
  for (const char* name :
       {"rope_scaling", "rope_parameters"}) { // the second is the name since transformers 5
    if (!fields.has(name)) continue;
    PUMICE_TRY(Fields scaling, fields.object(name));
    PUMICE_TRY(config.rotary.base, scaling.f32_or("rope_theta", 1.0f, 1e9f, config.rotary.base));
    PUMICE_CHECK(read_scaling(scaling, config.rotary));
  }
  config.rotary.pairs = RotaryPairs::half_split;
  config.rotary.dim = config.head_dim;
  return config;
}

Result<LlamaConfig> read_gguf(const ModelFile& file) {
  const Fields fields = file.fields();
  LlamaConfig config;
  PUMICE_TRY(config.hidden, fields.u32("llama.embedding_length", 1, most_columns));
  PUMICE_TRY(config.context, fields.u32("llama.context_length", 1, longest_context));
  PUMICE_TRY(config.layers, fields.u32("llama.block_count", 1, most_layers));
  PUMICE_TRY(config.heads, fields.u32("llama.attention.head_count", 1, most_heads));
  PUMICE_TRY(config.kv_heads, fields.u32_or("llama.attention.head_count_kv", 1, most_heads, config.heads));
  PUMICE_TRY(config.head_dim,
             fields.u32_or("llama.attention.key_length", 1, largest_head, config.hidden / config.heads));
  PUMICE_TRY(uint32_t value_dim,
             fields.u32_or("llama.attention.value_length", 1, largest_head, config.head_dim));
  if (value_dim != config.head_dim) {
    return fields.error("llama.attention.value_length",
                        fmt::format("expected {}, as the keys; found {}", config.head_dim, value_dim));
  }
  PUMICE_TRY(config.feed_forward, fields.u32("llama.feed_forward_length", 1, most_columns));
  PUMICE_TRY(config.norm_eps, fields.f32("llama.attention.layer_norm_rms_epsilon", 0.0f, 1.0f));
  PUMICE_TRY(uint32_t experts, fields.u32_or("llama.expert_count", 0));
  if (experts) return fields.error("llama.expert_count", fmt::format("expected 0; found {}", experts));

  const TensorView* embedding = file.find("token_embd.weight");
  const uint32_t rows =
      embedding && embedding->shape.size() == 2 ? static_cast<uint32_t>(embedding->shape[0]) : 0;
  PUMICE_TRY(config.vocabulary, fields.u32_or("llama.vocab_size", 1, most_tokens, rows ? rows : most_tokens));
  if (rows) config.vocabulary = rows; // some converters count the padding and some do not: the table decides
  config.tied_head = file.has_weights() && !file.find("output.weight");
  config.attention_bias = file.find("blk.0.attn_q.bias") != nullptr;
  config.feed_forward_bias = file.find("blk.0.ffn_gate.bias") != nullptr;

  config.rotary.pairs = RotaryPairs::neighbouring; // llama.cpp's converter permutes the rows to this
  PUMICE_TRY(config.rotary.dim,
             fields.u32_or("llama.rope.dimension_count", 1, largest_head, config.head_dim));
  PUMICE_TRY(config.rotary.base, fields.f32_or("llama.rope.freq_base", 1.0f, 1e9f, 10000.0f));
  PUMICE_TRY(std::string scaling, fields.string_or("llama.rope.scaling.type", "none"));
  if (scaling == "linear") {
    config.rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(config.rotary.factor, fields.f32("llama.rope.scaling.factor", 1e-3f, 1e6f));
  } else if (scaling != "none") {
    return fields.error("llama.rope.scaling.type",
                        fmt::format("expected one of none, linear; found '{}'", scaling));
  }
  return config;
}

Status check(const LlamaConfig& config, const ModelFile& file) {
  const bool gguf = file.format() == ModelFile::Format::gguf;
  const Fields fields = file.fields();
  const auto field = [&](const char* gguf_name, const char* other) { return gguf ? gguf_name : other; };
  if (config.heads % config.kv_heads) {
    return fields.error(
        field("llama.attention.head_count_kv", "num_key_value_heads"),
        fmt::format("expected a divisor of the {} heads; found {}", config.heads, config.kv_heads));
  }
  if (config.head_dim < 4 || config.head_dim > largest_head || config.head_dim % 4) {
    return fields.error(
        field("llama.attention.key_length", "head_dim"),
        fmt::format("expected a multiple of 4 up to {}; found {}", largest_head, config.head_dim));
  }
  if (config.rotary.dim % 2 || config.rotary.dim > config.head_dim) {
    return fields.error(
        field("llama.rope.dimension_count", "head_dim"),
        fmt::format("expected an even number up to {}; found {}", config.head_dim, config.rotary.dim));
  }
  return {};
}

} // namespace

Result<LlamaConfig> LlamaConfig::read(const ModelFile& file) {
  PUMICE_TRY(LlamaConfig config,
             file.format() == ModelFile::Format::gguf ? read_gguf(file) : read_hugging_face(file));
  PUMICE_CHECK(check(config, file));
  return config;
}

} // namespace pumice
