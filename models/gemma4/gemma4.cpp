#include "models/gemma4/gemma4.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/norm/norm.h"
#include "models/decoder/mixture.h"
#include "models/decoder/model.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

struct Gemma4Settings {
  bool bias = false;
  bool keys_as_values = false;  // in the layers without a window
  bool scaled_layers = true;    // each layer's result has a factor
  uint32_t per_layer_input = 0; // columns that the token's own embedding for a layer has; 0: none
  RotaryConfig rotary_in_windows;
  std::optional<MixtureConfig> mixture; // beside the feed-forward of each layer
};

// The names after the root, which is "model." or, where the model also sees and hears, another.
// With a mixture the feed-forward reads the residual, which each part norms for itself.
constexpr BlockNorms norms_around_mixture = {
    norms_around.attention_input, norms_around.attention_result, {}, norms_around.feed_forward_result};

constexpr DecoderNames decoder_names = {
    {"embed_tokens", "token_embd"}, "layers.{}.", {"norm", "output_norm"}, {}, false};

// The text model of Gemma 4 (Gemma Team 2026): Gemma 3 with norms of each head's value, other sizes and
// another rotation in the layers without a window, last layers that attend to the keys and values of earlier
// ones, and a further embedding of each token for each layer.
class Gemma4 : public DecoderModel {
public:
  Gemma4(DecoderConfig config, bool gguf, Gemma4Settings own)
      : DecoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(DecoderBuilder& builder) const override {
    const TensorId embedded = builder.embed(decoder_names.embedding, config().embedding_scale);
    TensorId layer_inputs = 0;
    if (own_.per_layer_input) layer_inputs = per_layer_inputs(builder, embedded);
    const auto block = [&](uint32_t layer, TensorId x) {
      const AttentionStyle style = attention_style(layer);
      const auto attention = [&](TensorId y) { return builder.self_attention(layer, y, style); };
      if (own_.mixture) {
        x = builder.block(x, norms_around_mixture, attention,
                          [&](TensorId y) { return feed_forward_and_mixture(builder, y); });
      } else {
        x = builder.block(x, norms_around, attention,
                          [&](TensorId y) { return builder.gated_feed_forward(y); });
      }
      if (own_.per_layer_input) x = add_layer_input(builder, x, layer_inputs, layer);
      return own_.scaled_layers ? scale_layer(builder, x) : x;
    };
    builder.decode_embedded(embedded, block, decoder_names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const LayerSizes sizes = config().sizes_of(0);
    std::vector<Hyperparameter> all;
    if (own_.mixture) all = pumice::hyperparameters(*own_.mixture);
    all.insert(all.end(),
               {{"rotary in windows", describe(own_.rotary_in_windows)},
                {"heads in windows", fmt::format("{} of {} dimensions", sizes.kv_heads, sizes.head_dim)},
                {"layers without keys", fmt::format("{}", config().sharing_layers)},
                {"input of each layer", fmt::format("{}", own_.per_layer_input)}});
    return all;
  }
  std::string_view gguf_architecture() const override { return "gemma4"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override;

private:
  AttentionStyle attention_style(uint32_t layer) const {
    const bool window = config().windows[layer] > 0;
    AttentionStyle style;
    style.input_bias = style.output_bias = own_.bias;
    style.score_scale = 1;
    style.head_norms = style.value_norm = true;
    if (window) style.rotary = &own_.rotary_in_windows;
    style.keys_as_values = !window && own_.keys_as_values;
    return style;
  }

  // Both read the residual, each by its own norm. The router reads it by a norm with a scale.
  TensorId feed_forward_and_mixture(DecoderBuilder& builder, TensorId residual) const {
    TensorId dense = builder.norm(residual, norms_around.feed_forward_input);
    dense = builder.gated_feed_forward(dense);
    dense = builder.norm(dense, {"post_feedforward_layernorm_1", "post_ffw_norm_1"});
    MixtureNames names;
    names.stack = ExpertStack::gate_first_as_is;
    names.router = {"router.proj", "ffn_gate_inp"};
    names.gate = {"experts.gate_up_proj", "ffn_gate_exps"};
    names.up = {"experts.gate_up_proj", "ffn_up_exps"};
    names.down = {"experts.down_proj", "ffn_down_exps"};
    names.result = {"experts", "experts"};
    const TensorId input = builder.norm(residual, {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"});
    TensorId experts = mixture(builder, input, router_logits(builder, residual, names), *own_.mixture, names);
    experts = builder.norm(experts, {"post_feedforward_layernorm_2", "post_ffw_norm_2"});
    return builder.add(dense, experts, "feed_forward_sum");
  }

  TensorId router_logits(DecoderBuilder& builder, TensorId residual, const MixtureNames& names) const {
    const TensorName scale_name = {"router.scale", "ffn_gate_inp.scale"};
    const WeightView weight = builder.tensor(scale_name, "", config().hidden, 0, "norms");
    const TensorId input = rms_norm(builder.graph(), builder.node_name(scale_name), residual,
                                    builder.weight(weight, "norms"), config().norm_eps);
    const TensorId logits =
        builder.project(input, names.router, own_.mixture->experts, false, "feed-forward");
    return scale(builder.graph(), builder.prefix() + "router_logits", logits,
                 1 / std::sqrt(static_cast<float>(config().hidden)));
  }

  // [tokens, layers * per_layer_input]: the mean of the token's embedding for each layer and a projection of
  // its first embedding, times the square root of two.
  TensorId per_layer_inputs(DecoderBuilder& builder, TensorId embedded) const {
    const uint32_t columns = config().layers * own_.per_layer_input;
    const char* component = "embedding";
    const WeightView table = builder.tensor({"embed_tokens_per_layer", "per_layer_token_embd"}, ".weight",
                                            config().vocabulary, columns, component);
    const TensorId own = embedding(builder.graph(), "per_layer_embedding", builder.weight(table, component),
                                   std::sqrt(static_cast<float>(own_.per_layer_input)));
    const TensorId projected = builder.project(
        embedded, {"per_layer_model_projection", "per_layer_model_proj"}, columns, false, component);
    const WeightId weight =
        builder.norm_weight({"per_layer_projection_norm", "per_layer_proj_norm"}, own_.per_layer_input);
    // The projection is divided by the square root of `hidden` before its norm. Only epsilon notices.
    const float eps = config().norm_eps * static_cast<float>(config().hidden);
    const TensorId normed =
        grouped_rms_norm(builder.graph(), "per_layer_norm", projected, weight, config().layers, eps);
    const TensorId sum = builder.add(normed, own, "per_layer_sum");
    return scale(builder.graph(), "per_layer_inputs", sum, std::sqrt(0.5f));
  }

  TensorId add_layer_input(DecoderBuilder& builder, TensorId x, TensorId layer_inputs, uint32_t layer) const {
    Graph& graph = builder.graph();
    const uint32_t columns = own_.per_layer_input;
    const View view = {layer_inputs, layer * columns};
    const TensorId input =
        graph.add_tensor({builder.prefix() + "per_layer_input", RowKind::tokens, columns, view});
    TensorId y = builder.project(x, {"per_layer_input_gate", "inp_gate"}, columns, false, "feed-forward");
    y = gate(graph, builder.prefix() + "per_layer_gated", y, input, config().activation);
    y = builder.project(y, {"per_layer_projection", "proj"}, config().hidden, false, "feed-forward");
    y = builder.norm(y, {"post_per_layer_input_norm", "post_norm"});
    return builder.add(y, x, "per_layer_residual");
  }

  static TensorId scale_layer(DecoderBuilder& builder, TensorId x) {
    const WeightView factor =
        builder.tensor({"layer_scalar", "layer_output_scale.weight"}, "", 1, 0, "norms");
    if (factor.tensor->data.empty()) return x; // the weights are only listed
    return scale(builder.graph(), builder.prefix() + "scaled", x, decode_vector(factor)[0]);
  }

  Gemma4Settings own_;
};

nlohmann::json Gemma4::gguf_metadata() const {
  nlohmann::json metadata = gguf_rotary_in_windows(own_.rotary_in_windows);
  metadata.update(gguf_windows(config()));
  std::vector<uint32_t> kv_heads, feed_forward;
  uint32_t head_dim_in_windows = config().head_dim;
  for (uint32_t layer = 0; layer < config().layers; ++layer) {
    const LayerSizes sizes = config().sizes_of(layer);
    kv_heads.push_back(sizes.kv_heads);
    feed_forward.push_back(sizes.feed_forward);
    if (config().windows[layer]) head_dim_in_windows = sizes.head_dim;
  }
  metadata["attention.head_count_kv"] = kv_heads;
  metadata["feed_forward_length"] = feed_forward;
  metadata["attention.key_length_swa"] = metadata["attention.value_length_swa"] = head_dim_in_windows;
  metadata["attention.shared_kv_layers"] = config().sharing_layers;
  metadata["embedding_length_per_layer_input"] = own_.per_layer_input;
  metadata["final_logit_softcapping"] = config().logit_soft_cap;
  if (own_.mixture) metadata.update(gguf_mixture(*own_.mixture));
  return metadata;
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

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma4(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_CHECK(check(settings));
  DecoderConfigNames names;
  names.default_context = 131072;
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh;
  names.head_dim = {"global_head_dim", "attention.key_length"};
  names.default_head_dim = 512;
  names.kv_heads = names.feed_forward = {}; // each layer has its own
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.root = "model.";
  Gemma4Settings own;
  PUMICE_CHECK(read_windows(settings, config));
  PUMICE_TRY(own.keys_as_values, read_keys_as_values(settings, config));
  PUMICE_CHECK(read_heads(settings, own.keys_as_values, config));
  PUMICE_CHECK(read_sharing_layers(settings, config));
  PUMICE_TRY(own.mixture, read_gemma4_mixture(settings, config));
  config.feed_forward = 0;
  PUMICE_CHECK(read_feed_forward(settings, config));
  const auto sliding = std::ranges::find_if(config.windows, [](uint32_t window) { return window > 0; });
  own.rotary_in_windows.pairs = config.rotary.pairs = RotaryPairs::half_split;
  own.rotary_in_windows.dim =
      sliding == config.windows.end()
          ? config.head_dim
          : config.sizes_of(static_cast<uint32_t>(sliding - config.windows.begin())).head_dim;
  config.rotary.dim = config.head_dim;
  own.rotary_in_windows.base = 10000;
  config.rotary.base = 1e6f;
  PUMICE_CHECK(read_rotary_in_windows(settings, config, own.rotary_in_windows));
  PUMICE_TRY(own.bias, settings.boolean_or({"attention_bias", ""}, false));
  own.scaled_layers = !settings.gguf() || file.find("blk.0.layer_output_scale.weight");
  const SettingName per_layer = {"hidden_size_per_layer_input", "embedding_length_per_layer_input"};
  PUMICE_TRY(own.per_layer_input, settings.u32_or(per_layer, 0, limits::columns, 0));
  if (own.per_layer_input % 4) {
    return settings.error(per_layer, fmt::format("expected a multiple of 4; found {}", own.per_layer_input));
  }
  PUMICE_TRY(config.logit_soft_cap, settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"},
                                                    0.0f, 1e6f, settings.gguf() ? 30.0f : 0.0f));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Gemma4>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace pumice
