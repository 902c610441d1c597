#include "models/gpt/gpt2.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// Projects with a matrix that Hugging Face's files store transposed, as [in, out].
TensorId project(ModelBuilder& builder, TensorId x, const TensorName& name, uint32_t rows,
                 std::string_view component) {
  const WeightView matrix =
      builder.transposed_tensor(name, rows, builder.graph().tensor(x).columns, component);
  const WeightView bias = builder.tensor(name, ".bias", rows, 0, component);
  return builder.project(x, builder.node_name(name), matrix, &bias, component);
}

// The same with one slice of a matrix that consists of `slices` slices of `rows` rows each.
TensorId project_slice(ModelBuilder& builder, TensorId x, const TensorName& name, uint32_t rows,
                       uint32_t slices, uint32_t index, const char* suffix) {
  const uint32_t columns = builder.graph().tensor(x).columns;
  const WeightView matrix = builder.transposed_tensor(name, slices * rows, columns, "attention");
  const WeightView bias =
      builder.tensor(name, ".bias", slices * rows, 0, "attention").slice(index * rows, rows);
  return builder.project(x, builder.node_name(name) + suffix, matrix.slice(index * rows, rows), &bias,
                         "attention");
}

AttentionStyle attention_style(const Gpt2Config& config, uint32_t layer) {
  AttentionStyle style;
  style.score_scale = config.scale_scores ? 1 / std::sqrt(static_cast<float>(config.decoder.head_dim)) : 1.0f;
  if (config.scale_by_layer) style.score_scale /= static_cast<float>(layer + 1);
  return style;
}

TensorId self_attention(DecoderBuilder& builder, const Gpt2Config& config, uint32_t layer, TensorId x) {
  const TensorName name = {"attn.c_attn", "attn_qkv"};
  const uint32_t size = config.decoder.hidden;
  const AttentionInputs inputs = {project_slice(builder, x, name, size, 3, 0, ".query"),
                                  project_slice(builder, x, name, size, 3, 1, ".key"),
                                  project_slice(builder, x, name, size, 3, 2, ".value")};
  x = builder.attend(layer, inputs, attention_style(config, layer));
  return project(builder, x, {"attn.c_proj", "attn_output"}, size, "attention");
}

TensorId cross_attention(DecoderBuilder& builder, const Gpt2Config& config, uint32_t layer, TensorId x) {
  const uint32_t size = config.decoder.hidden;
  x = project(builder, x, {"crossattention.q_attn", ""}, size, "attention");
  x = builder.attend_memory(layer, x, attention_style(config, layer));
  return project(builder, x, {"crossattention.c_proj", ""}, size, "attention");
}

TensorId feed_forward(DecoderBuilder& builder, const Gpt2Config& config, TensorId x) {
  x = project(builder, x, {"mlp.c_fc", "ffn_up"}, config.decoder.feed_forward, "feed-forward");
  x = activate(builder.graph(), builder.node_name({"mlp.activated", "activated"}), x,
               config.decoder.activation);
  return project(builder, x, {"mlp.c_proj", "ffn_down"}, config.decoder.hidden, "feed-forward");
}

TensorId block(DecoderBuilder& builder, const Gpt2Config& config, uint32_t layer, TensorId x) {
  TensorId y = self_attention(builder, config, layer, builder.layer_norm(x, {"ln_1", "attn_norm"}));
  x = builder.add(y, x, "attention_residual");
  if (config.cross_attention) {
    y = cross_attention(builder, config, layer, builder.layer_norm(x, {"ln_cross_attn", ""}));
    x = builder.add(y, x, "cross_attention_residual");
  }
  y = feed_forward(builder, config, builder.layer_norm(x, {"ln_2", "ffn_norm"}));
  return builder.add(y, x, "residual");
}

// GPT-2 (Radford et al. 2019) and models of the same form: pre-norm blocks with layer norms, learned
// positions, biases everywhere, and a feed-forward without a gate.
OpenedDefinition open_gpt2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(Gpt2Config config, read_gpt2_config(settings));
  if (file.find("wte.weight")) config.prefix.clear();
  Decoder d;
  d.config = config.decoder;
  d.own_build = [config](const Decoder&, DecoderBuilder& builder) { build_gpt2(builder, config); };
  d.shown = {{"positions", "learned"}};
  d.gguf_name = "gpt2";
  return make_decoder(std::move(d), settings);
}

} // namespace

void build_gpt2(DecoderBuilder& builder, const Gpt2Config& config) {
  builder.prefix(config.prefix, "");
  TensorId x = builder.embed({"wte", "token_embd"});
  x = builder.learned_positions(x, {"wpe", "position_embd"});
  for (uint32_t layer = 0; layer < config.decoder.layers; ++layer) {
    builder.hidden_state(x);
    builder.layer_input(x);
    builder.layer(layer, config.prefix + "h.{}.");
    x = block(builder, config, layer, x);
  }
  builder.prefix(config.prefix, "");
  x = builder.layer_norm(x, {"ln_f", "output_norm"});
  builder.hidden_state(x);
  builder.finish(x, {"lm_head", "output"});
}

void store_gpt2_memory(EncoderBuilder& builder, const Gpt2Config& config, TensorId x) {
  const TensorName name = {"crossattention.c_attn", ""};
  const uint32_t size = config.decoder.hidden;
  for (uint32_t layer = 0; layer < config.decoder.layers; ++layer) {
    builder.layer(layer, config.decoder.root + config.prefix + "h.{}.");
    const TensorId keys = project_slice(builder, x, name, size, 2, 0, ".key");
    const TensorId values = project_slice(builder, x, name, size, 2, 1, ".value");
    builder.store_memory(layer, keys, values);
  }
}

Result<Gpt2Config> read_gpt2_config(const Settings& settings) {
  const StackConfigNames names = {.context = {"n_positions", "context_length"},
                                  .hidden = {"n_embd", "embedding_length"},
                                  .layers = {"n_layer", "block_count"},
                                  .heads = {"n_head", "attention.head_count"},
                                  .kv_heads = {"", "attention.head_count_kv"},
                                  .head_dim = {"", "attention.key_length"},
                                  .feed_forward = {"n_inner", "feed_forward_length"},
                                  .norm_eps = {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
                                  .activation = {"activation_function", ""},
                                  .default_context = 1024,
                                  .default_norm_eps = 1e-5f,
                                  .default_activation = Activation::gelu_tanh,
                                  .tied_by_default = true,
                                  .rotary = false};
  Gpt2Config config;
  PUMICE_TRY(config.decoder, read_decoder_config(settings, names));
  config.decoder.norm.kind = NormKind::layer;
  const DecoderConfig& decoder = config.decoder;
  if (decoder.hidden != decoder.heads * decoder.head_dim || decoder.kv_heads != decoder.heads) {
    return settings.error(names.heads, fmt::format("expected a divisor of the {} columns; found {}",
                                                   decoder.hidden, decoder.heads));
  }
  PUMICE_TRY(config.scale_scores, settings.boolean_or({"scale_attn_weights", ""}, true));
  PUMICE_TRY(config.scale_by_layer, settings.boolean_or({"scale_attn_by_inverse_layer_idx", ""}, false));
  config.prefix = "transformer.";
  return config;
}

Architectures gpt2_models() {
  return {{"gpt2", {"gpt2"}, {"gpt2"}, open_gpt2}};
}

} // namespace pumice
