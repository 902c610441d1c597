#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/norm/norm.h"
#include "models/decoder/decoder.h"
#include "models/decoder/rotary.h"
#include "models/gemma/layer_inputs.h"

namespace pumice {

namespace {

// With a mixture the feed-forward reads the residual, which each part norms for itself.
constexpr BlockNorms norms_around_mixture = {
    norms_around.attention_input, norms_around.attention_result, {}, norms_around.feed_forward_result};

TensorId router_logits(DecoderBuilder& builder, TensorId residual, const MixtureNames& names,
                       uint32_t experts) {
  const TensorName scale_name = {"router.scale", "ffn_gate_inp.scale"};
  const WeightView weight = builder.tensor(scale_name, "", builder.config().hidden, 0, "norms");
  const TensorId input = rms_norm(builder.graph(), builder.node_name(scale_name), residual,
                                  builder.weight(weight, "norms"), builder.config().norm_eps);
  const TensorId logits = builder.project(input, names.router, experts, false, "feed-forward");
  return scale(builder.graph(), builder.prefix() + "router_logits", logits,
               1 / std::sqrt(static_cast<float>(builder.config().hidden)));
}

// Both read the residual, each by its own norm. The router reads it by a norm with a scale.
TensorId feed_forward_and_mixture(DecoderBuilder& builder, uint32_t layer, TensorId residual,
                                  const MixtureConfig& config) {
  TensorId dense = builder.norm(residual, norms_around.feed_forward_input);
  dense = builder.gated_feed_forward(dense, {}, builder.config().sizes_of(layer).feed_forward);
  dense = builder.norm(dense, {"post_feedforward_layernorm_1", "post_ffw_norm_1"});
  MixtureNames names;
  names.stack = ExpertStack::gate_first_as_is;
  names.router = {"router.proj", "ffn_gate_inp"};
  names.gate = {"experts.gate_up_proj", "ffn_gate_exps"};
  names.up = {"experts.gate_up_proj", "ffn_up_exps"};
  names.down = {"experts.down_proj", "ffn_down_exps"};
  names.result = {"experts", "experts"};
  const TensorId input = builder.norm(residual, {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"});
  TensorId experts =
      mixture(builder, input, router_logits(builder, residual, names, config.experts), config, names);
  experts = builder.norm(experts, {"post_feedforward_layernorm_2", "post_ffw_norm_2"});
  return builder.add(dense, experts, "feed_forward_sum");
}

TensorId scale_layer(DecoderBuilder& builder, TensorId x) {
  const WeightView factor = builder.tensor({"layer_scalar", "layer_output_scale.weight"}, "", 1, 0, "norms");
  if (factor.tensor->data.empty()) return x; // the weights are only listed
  return scale(builder.graph(), builder.prefix() + "scaled", x, decode_vector(factor)[0]);
}

// The decoder whose layers begin as others do: each token has a further embedding for each layer, of
// `columns` columns, unless these are 0, and a layer's result may have a factor.
void build_gemma4(const Decoder& d, DecoderBuilder& builder, uint32_t columns, bool scaled_layers) {
  const TensorId embedded = builder.with_pictures(builder.embed(d.names.embedding, d.config.embedding_scale));
  TensorId layer_inputs = 0;
  if (columns) layer_inputs = per_layer_inputs(builder, embedded, columns, builder.config().vocabulary);
  const auto block = [&](uint32_t layer, TensorId x) {
    x = d.block(builder, layer, x);
    if (columns)
      x = builder.add(gated_layer_input(builder, x, layer_inputs, layer, columns), x, "per_layer_residual");
    return scaled_layers ? scale_layer(builder, x) : x;
  };
  builder.decode_embedded(embedded, block, d.names);
}

// GGUF's keys of the layers' sizes.
void add_gguf_sizes(const DecoderConfig& config, nlohmann::json& metadata) {
  std::vector<uint32_t> kv_heads, feed_forward;
  uint32_t head_dim_in_windows = config.head_dim;
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const LayerSizes sizes = config.sizes_of(layer);
    kv_heads.push_back(sizes.kv_heads);
    feed_forward.push_back(sizes.feed_forward);
    if (config.windows[layer]) head_dim_in_windows = sizes.head_dim;
  }
  metadata["attention.head_count_kv"] = kv_heads;
  metadata["feed_forward_length"] = feed_forward;
  metadata["attention.key_length_swa"] = metadata["attention.value_length_swa"] = head_dim_in_windows;
  metadata["attention.shared_kv_layers"] = config.sharing_layers;
}

// Reads the windows, and which of the last layers share keys and values, after the sizes of all layers.
Status read_windows(const Settings& settings, DecoderConfig& config) {
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 1, limits::context, 512));
  constexpr uint32_t period = 6; // one of this many layers has no window
  if (settings.gguf()) return read_gguf_windows(settings, window, period, config);
  PUMICE_CHECK(
      read_layer_types(settings, window, config, [](uint32_t layer) { return (layer + 1) % period != 0; }));
  config.windows.back() = 0; // whatever the list says
  return {};
}

// Reads the heads of all layers. config.head_dim is that of the layers without a window.
Status read_heads(const Settings& settings, bool keys_as_values, DecoderConfig& config) {
  const SettingName all = {"num_key_value_heads", "attention.head_count_kv"};
  const SettingName without_window = {"num_global_key_value_heads", ""};
  PUMICE_TRY(std::vector<uint32_t> kv_heads,
             settings.u32_each(all, config.layers, 1, limits::heads, config.heads));
  const uint32_t default_dim = settings.gguf() ? config.head_dim : 256;
  PUMICE_TRY(const uint32_t head_dim,
             settings.u32_or({"head_dim", "attention.key_length_swa"}, 1, limits::head_dim, default_dim));
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool window = config.windows[layer] > 0;
    if (!window && keys_as_values) {
      PUMICE_TRY(kv_heads[layer], settings.u32_or(without_window, 1, limits::heads, kv_heads[layer]));
    }
    if (config.heads % kv_heads[layer]) {
      return settings.error(
          all, fmt::format("expected divisors of the {} heads; found {}", config.heads, kv_heads[layer]));
    }
    config.layer_sizes.push_back({kv_heads[layer], window ? head_dim : config.head_dim, 0});
  }
  config.kv_heads = *std::ranges::max_element(kv_heads);
  return {};
}

Status read_feed_forward(const Settings& settings, DecoderConfig& config) {
  PUMICE_TRY(std::vector<uint32_t> sizes,
             settings.u32_each({"intermediate_size", "feed_forward_length"}, config.layers, 1,
                               4 * limits::columns, 4 * config.hidden));
  PUMICE_TRY(const bool wide, settings.boolean_or({"use_double_wide_mlp", ""}, false));
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool shares = layer >= config.layers - config.sharing_layers;
    config.layer_sizes[layer].feed_forward = sizes[layer] * (wide && shares ? 2 : 1);
    config.feed_forward = std::max(config.feed_forward, config.layer_sizes[layer].feed_forward);
  }
  return {};
}

// Refuses what this does not compute.
Status check(const Settings& settings) {
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  const SettingName both_ways = {"use_bidirectional_attention", ""};
  if (!settings.has(both_ways)) return {};
  PUMICE_TRY(const std::string mask, settings.fields().string(settings.name(both_ways)));
  if (mask == "vision") return {}; // text is read in one direction all the same
  return settings.error(both_ways, fmt::format("expected vision; found '{}'", mask));
}

// Experts beside the feed-forward, in files that have them.
Result<std::optional<MixtureConfig>> read_gemma4_mixture(const Settings& settings,
                                                         const DecoderConfig& config) {
  PUMICE_TRY(const uint32_t experts, settings.u32_or({"", "expert_count"}, 0, UINT32_MAX, 0));
  PUMICE_TRY(const bool enabled, settings.boolean_or({"enable_moe_block", ""}, experts > 0));
  if (!enabled) return std::optional<MixtureConfig>();
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, {}));
  mixture.routing.scaled = true;
  return std::optional(std::move(mixture));
}

// Whether values are the keys in the layers without a window; GGUF files lack their projection then.
Result<bool> read_keys_as_values(const Settings& settings, const DecoderConfig& config) {
  if (!settings.gguf()) return settings.boolean_or({"attention_k_eq_v", ""}, false);
  const auto found = std::ranges::find(config.windows, 0u);
  if (found == config.windows.end() || !settings.file().has_weights()) return false;
  return !settings.file().find(fmt::format("blk.{}.attn_v.weight", found - config.windows.begin()));
}

// The rotations of the layers with a window and of the others, whose heads differ.
Status read_gemma4_rotary(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  RotaryConfig& local = d.rotary_in_windows.emplace();
  const auto sliding = std::ranges::find_if(config.windows, [](uint32_t window) { return window > 0; });
  local.pairs = config.rotary.pairs = RotaryPairs::half_split;
  local.dim = sliding == config.windows.end()
                  ? config.head_dim
                  : config.sizes_of(static_cast<uint32_t>(sliding - config.windows.begin())).head_dim;
  config.rotary.dim = config.head_dim;
  local.base = 10000;
  config.rotary.base = 1e6f;
  return read_rotary_in_windows(settings, config, local);
}

// The text model of Gemma 4 (Gemma Team 2026): Gemma 3 with norms of each head's value, other sizes and
// another rotation in the layers without a window, last layers that attend to the keys and values of earlier
// ones, and a further embedding of each token for each layer.
Status describe_gemma4(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(check(settings));
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.root = "model."; // or, where the model also sees and hears, another
  d.names = {.embedding = {"embed_tokens", "token_embd"},
             .layers = "layers.{}.",
             .norm = {"norm", "output_norm"},
             .head = {}};
  PUMICE_CHECK(read_windows(settings, config));
  PUMICE_TRY(d.style.keys_as_values, read_keys_as_values(settings, config));
  PUMICE_CHECK(read_heads(settings, d.style.keys_as_values, config));
  PUMICE_CHECK(read_sharing_layers(settings, config));
  PUMICE_TRY(const std::optional<MixtureConfig> mixture, read_gemma4_mixture(settings, config));
  config.feed_forward = 0;
  PUMICE_CHECK(read_feed_forward(settings, config));
  PUMICE_CHECK(read_gemma4_rotary(settings, d));
  PUMICE_CHECK(d.read_bias(settings, "attention_bias"));
  d.style.score_scale = 1;
  d.style.head_norms = d.style.value_norm = true;
  d.style.whole_pictures = config.pictures && config.pictures->bidirectional;
  const SettingName per_layer = {"hidden_size_per_layer_input", "embedding_length_per_layer_input"};
  PUMICE_TRY(const uint32_t columns, settings.u32_or(per_layer, 0, limits::columns, 0));
  if (columns % 4) {
    return settings.error(per_layer, fmt::format("expected a multiple of 4; found {}", columns));
  }
  PUMICE_TRY(config.logit_soft_cap, settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"},
                                                    0.0f, 1e6f, settings.gguf() ? 30.0f : 0.0f));
  const bool scaled_layers = !settings.gguf() || settings.file().find("blk.0.layer_output_scale.weight");
  d.own_build = [columns, scaled_layers](const Decoder& decoder, DecoderBuilder& builder) {
    build_gemma4(decoder, builder, columns, scaled_layers);
  };
  d.norms = norms_around;
  d.gguf_metadata = gguf_rotary_in_windows(*d.rotary_in_windows);
  d.gguf_metadata.update(gguf_windows(config));
  add_gguf_sizes(config, d.gguf_metadata);
  d.gguf_metadata["embedding_length_per_layer_input"] = columns;
  d.gguf_metadata["final_logit_softcapping"] = config.logit_soft_cap;
  if (mixture) {
    d.norms = norms_around_mixture;
    d.own_feed_forward = [mixture = *mixture](DecoderBuilder& builder, uint32_t layer, TensorId x) {
      return feed_forward_and_mixture(builder, layer, x, mixture);
    };
    d.shown = hyperparameters(*mixture);
    d.gguf_metadata.update(gguf_mixture(*mixture));
  }
  const LayerSizes sizes = config.sizes_of(0);
  d.shown.insert(d.shown.end(),
                 {{"rotary in windows", describe(*d.rotary_in_windows)},
                  {"heads in windows", fmt::format("{} of {} dimensions", sizes.kv_heads, sizes.head_dim)},
                  {"layers without keys", fmt::format("{}", config.sharing_layers)},
                  {"input of each layer", fmt::format("{}", columns)}});
  return {};
}

} // namespace

Architectures gemma4_models() {
  return {decoder("gemma4", {"gemma4_text"}, {"gemma4"},
                  {.kv_heads = {}, // each layer has its own
                   .head_dim = {"global_head_dim", "attention.key_length"},
                   .feed_forward = {},
                   .activation = {"hidden_activation", ""},
                   .default_context = 131072,
                   .default_head_dim = 512,
                   .default_activation = Activation::gelu_tanh,
                   .tied_by_default = true,
                   .rotary = false},
                  describe_gemma4)};
}

} // namespace pumice
