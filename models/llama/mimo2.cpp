#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/heads/heads.h"
#include "models/decoder/decoder.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

struct MimoAttention {
  uint32_t value_dim = 0; // columns of a head's value; its query and key have head_dim
  float value_scale = 1;
  bool bias = false;       // of queries, keys and values
  std::vector<bool> sinks; // by layer
  std::string_view sink_name = "self_attn.sinks";
  RotaryConfig rotary_in_windows;
};

// Values are cached as wide as keys. What follows their own columns are the key's, and what attention gives
// of those is left out.
TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x, const MimoAttention& own) {
  constexpr std::string_view component = "attention";
  const DecoderConfig& config = builder.config();
  Graph& graph = builder.graph();
  const uint32_t heads = config.heads, kv_heads = config.sizes_of(layer).kv_heads, columns = config.head_dim;
  AttentionInputs inputs;
  inputs.query = builder.project(x, {"self_attn.q_proj", "attn_q"}, heads * columns, own.bias, component);
  inputs.key = builder.project(x, {"self_attn.k_proj", "attn_k"}, kv_heads * columns, own.bias, component);
  TensorId value =
      builder.project(x, {"self_attn.v_proj", "attn_v"}, kv_heads * own.value_dim, own.bias, component);
  if (own.value_scale != 1) value = scale(graph, builder.prefix() + "scaled_value", value, own.value_scale);
  inputs.value = own.value_dim == columns ? value
                                          : join_heads(graph, builder.prefix() + "wide_value", value,
                                                       {own.value_dim, 0, own.value_dim}, inputs.key,
                                                       {columns, 0, columns - own.value_dim}, kv_heads);
  AttentionStyle style;
  if (config.windows[layer] > 0) style.rotary = &own.rotary_in_windows;
  if (own.sinks[layer]) {
    const WeightView sinks = builder.tensor({own.sink_name, "attn_sinks.weight"}, "", heads, 0, component);
    style.sinks = builder.weight(sinks, component);
  }
  TensorId y = builder.attend(layer, inputs, style);
  if (own.value_dim != columns)
    y = join_heads(graph, builder.prefix() + "narrow_value", y, {columns, 0, own.value_dim}, y,
                   {columns, 0, 0}, heads);
  return builder.project(y, style.output, config.hidden, false, component);
}

// Whether each layer is one of those with a 1 in a list of config.json; nothing without the list.
Result<std::vector<bool>> read_ones(const Settings& settings, std::string_view name, uint32_t layers) {
  PUMICE_TRY(const std::vector<uint32_t> list, settings.fields().u32_array_or_empty(name, 0, 1));
  if (list.empty() || list.size() == layers) return std::vector<bool>(list.begin(), list.end());
  return settings.error({name, ""},
                        fmt::format("expected one for each of the {} layers; found {}", layers, list.size()));
}

Status read_mimo_windows(const Settings& settings, DecoderConfig& config) {
  constexpr uint32_t period = 6, by_default = 128;
  const char* const name = settings.fields().has("sliding_window") ? "sliding_window" : "sliding_window_size";
  PUMICE_TRY(const uint32_t window,
             settings.u32_or({name, "attention.sliding_window"}, 0, limits::context, by_default));
  if (settings.gguf()) return read_gguf_windows(settings, window, period, config);
  PUMICE_TRY(const std::vector<bool> slides, read_ones(settings, "hybrid_layer_pattern", config.layers));
  return read_layer_types(settings, window, config, [&](uint32_t layer) {
    return slides.empty() ? layer > 0 && (layer + 1) % period != 0 : bool{slides[layer]};
  });
}

// Heads of keys are twice as many in the layers with a window, unless the file says otherwise.
Status read_mimo_heads(const Settings& settings, DecoderConfig& config) {
  const SettingName all = {"num_key_value_heads", "attention.head_count_kv"},
                    in_windows = {"swa_num_key_value_heads", ""};
  PUMICE_TRY(std::vector<uint32_t> kv_heads,
             settings.u32_each(all, config.layers, 1, limits::heads, config.heads));
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    uint32_t& own = kv_heads[layer];
    const bool window = config.windows[layer] > 0;
    if (window && !settings.gguf()) {
      PUMICE_TRY(own, settings.u32_or(in_windows, 1, limits::heads, 2 * own));
    }
    if (config.heads % own) {
      return settings.error(
          window && settings.has(in_windows) ? in_windows : all,
          fmt::format("expected divisors of the {} heads; layer {} has {}", config.heads, layer, own));
    }
    config.layer_sizes.push_back({own, config.head_dim, config.feed_forward});
  }
  config.kv_heads = *std::ranges::max_element(kv_heads);
  for (const auto& [name, expected] :
       {std::pair("swa_head_dim", config.head_dim), {"swa_num_attention_heads", config.heads}}) {
    PUMICE_TRY(const uint32_t found, settings.u32_or({name, ""}, 1, limits::heads, expected));
    if (found != expected)
      return settings.error(
          {name, ""}, fmt::format("expected {}, as in layers without a window; found {}", expected, found));
  }
  return {};
}

Status read_values(const Settings& settings, const DecoderConfig& config, MimoAttention& own) {
  const SettingName name = {"v_head_dim", "attention.value_length"}, in_windows = {"swa_v_head_dim", ""};
  PUMICE_TRY(own.value_dim,
             settings.u32_or(name, 1, limits::head_dim, settings.gguf() ? config.head_dim : 128));
  if (own.value_dim > config.head_dim) {
    return settings.error(name, fmt::format("expected at most {}, the size of a key; found {}",
                                            config.head_dim, own.value_dim));
  }
  PUMICE_TRY(const uint32_t other, settings.u32_or(in_windows, 1, limits::head_dim, own.value_dim));
  if (other != own.value_dim)
    return settings.error(in_windows, fmt::format("expected {}; found {}", own.value_dim, other));
  const nlohmann::json& all = settings.file().config();
  const bool null = all.contains("attention_value_scale") && all["attention_value_scale"].is_null();
  const float least = settings.gguf() ? 0 : 1e-6f, by_default = settings.gguf() || null ? 1.0f : 0.707f;
  PUMICE_TRY(own.value_scale,
             settings.f32_or({"attention_value_scale", "attention.value_scale"}, least, 1e6f, by_default));
  if (own.value_scale == 0) own.value_scale = 1; // GGUF's word for none
  return {};
}

// The rotation of one type of layers: config.json has an object for it, or names of its own.
Status read_mimo_rotary(const Settings& settings, std::string_view type, const char* base, uint32_t head_dim,
                        RotaryConfig& rotary) {
  const Fields& fields = settings.fields();
  PUMICE_TRY(const Fields all, fields.object_or_empty("rope_parameters"));
  PUMICE_TRY(const Fields own, all.object_or_empty(type));
  PUMICE_TRY(const Fields scaling, fields.object_or_empty("rope_scaling"));
  const bool apart = all.has("full_attention") || all.has("sliding_attention");
  if (!apart && all.has("rope_theta"))
    return all.error("rope_theta", "expected in objects full_attention and sliding_attention");
  if (!apart) {
    PUMICE_TRY(rotary.base, fields.f32_or(base, 1.0f, 1e12f, rotary.base));
  }
  PUMICE_TRY(rotary.base, own.f32_or("rope_theta", 1.0f, 1e12f, rotary.base));
  constexpr std::string_view share_name = "partial_rotary_factor";
  double share = 0.334; // as a double, of which dimensions are the whole part
  for (const Fields& each : {fields, all, own}) {
    PUMICE_CHECK(each.f32_or(share_name, 0.0f, 1.0f, 0.0f));
    if (const nlohmann::json* found = each.find(share_name)) share = found->get<double>();
  }
  for (const Fields& each : {scaling, all, own}) {
    for (const char* name : {"rope_type", "type"}) {
      PUMICE_TRY(const std::string kind, each.string_or(name, "default"));
      if (kind != "default") return each.error(name, fmt::format("expected default; found '{}'", kind));
    }
  }
  rotary.pairs = RotaryPairs::half_split;
  rotary.dim = static_cast<uint32_t>(share * head_dim);
  if (rotary.dim % 2)
    return settings.error(
        {"partial_rotary_factor", ""},
        fmt::format("expected an even number of dimensions to rotate; found {}", rotary.dim));
  return {};
}

Status read_rotations(const Settings& settings, DecoderConfig& config, MimoAttention& own) {
  config.rotary.base = 5e6f;
  if (!settings.gguf()) {
    PUMICE_CHECK(read_mimo_rotary(settings, "full_attention", "rope_theta", config.head_dim, config.rotary));
    return read_mimo_rotary(settings, "sliding_attention", "swa_rope_theta", config.head_dim,
                            own.rotary_in_windows);
  }
  PUMICE_TRY(config.rotary, read_rotary(settings, config));
  own.rotary_in_windows.pairs = config.rotary.pairs;
  own.rotary_in_windows.dim = config.rotary.dim;
  return read_rotary_in_windows(settings, config, own.rotary_in_windows);
}

Result<MixtureConfig> read_mimo_mixture(const Settings& settings, const DecoderConfig& config) {
  PUMICE_TRY(const uint32_t shared, read_shared_experts(settings, 1, 0));
  if (shared > 0) return settings.error({"n_shared_experts", ""}, "shared experts are not supported");
  PUMICE_TRY(const std::string score, settings.fields().string_or("scoring_func", "sigmoid"));
  if (score != "sigmoid")
    return settings.error({"scoring_func", ""}, fmt::format("expected sigmoid; found '{}'", score));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, config, {.score = ExpertScore::sigmoid, .biased = true, .dense = 1}));
  PUMICE_TRY(const std::vector<bool> sparse, read_ones(settings, "moe_layer_freq", config.layers));
  if (!sparse.empty()) mixture.sparse = sparse;
  if (settings.gguf()) {
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      mixture.sparse[layer] = settings.file().find(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
  }
  return mixture;
}

// MiMo V2 Flash (Xiaomi 2025): windows, with sinks, in most layers, which have a rotation and heads of keys
// of their own; values narrower than keys; experts as DeepSeek V3's.
Status describe_mimo2(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  if (settings.fields().has("attention_projection_layout")) {
    PUMICE_TRY(const std::string layout, settings.fields().string("attention_projection_layout"));
    if (layout != "split") {
      return settings.error({"attention_projection_layout", ""},
                            fmt::format("expected split; found '{}'", layout));
    }
  }
  const char* eps = settings.fields().has("layernorm_epsilon") ? "layernorm_epsilon" : "rms_norm_eps";
  PUMICE_TRY(config.norm_eps,
             settings.f32_or({eps, "attention.layer_norm_rms_epsilon"}, 0.0f, 1.0f, config.norm_eps));
  MimoAttention own;
  PUMICE_CHECK(read_mimo_windows(settings, config));
  PUMICE_CHECK(read_mimo_heads(settings, config));
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  PUMICE_CHECK(read_values(settings, config, own));
  PUMICE_CHECK(read_rotations(settings, config, own));
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  own.bias = d.style.input_bias;
  if (own.bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
  PUMICE_TRY(const bool in_windows, settings.boolean_or({"add_swa_attention_sink_bias", ""}, true));
  PUMICE_TRY(const bool others, settings.boolean_or({"add_full_attention_sink_bias", ""}, false));
  std::vector<uint32_t> kv_heads;
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool found = settings.file().find(fmt::format("blk.{}.attn_sinks.weight", layer));
    own.sinks.push_back(settings.gguf() ? found : config.windows[layer] > 0 ? in_windows : others);
    kv_heads.push_back(config.sizes_of(layer).kv_heads);
  }
  if (settings.has_tensor(".self_attn.attention_sink_bias")) own.sink_name = "self_attn.attention_sink_bias";
  PUMICE_TRY(MixtureConfig mixture, read_mimo_mixture(settings, config));
  d.gguf_metadata = gguf_windows(config);
  d.gguf_metadata["attention.head_count_kv"] = kv_heads;
  d.gguf_metadata["attention.value_length"] = own.value_dim;
  if (own.value_scale != 1) d.gguf_metadata["attention.value_scale"] = own.value_scale;
  d.gguf_metadata.update(gguf_rotary_in_windows(own.rotary_in_windows));
  if (own.rotary_in_windows.dim != config.rotary.dim)
    d.refuse_gguf(settings, "partial_rotary_factor", "rotate as many dimensions in all layers");
  d.shown = {{"value of a head", fmt::format("{}, times {:g}", own.value_dim, own.value_scale)},
             {"rotary in windows", describe(own.rotary_in_windows)},
             {"heads of keys", fmt::format("{}", fmt::join(kv_heads, " "))}};
  d.own_attention = [own](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    return attend(builder, layer, x, own);
  };
  d.set_mixture(settings, std::move(mixture), {.normalise = true, .any_layers = true});
  return {};
}

} // namespace

Architectures mimo2_models() {
  return {decoder("mimo2", {"mimo_v2_flash"}, {"mimo2"},
                  {.kv_heads = {}, // layers have their own
                   .value_dim = {},
                   .default_context = 131072,
                   .default_head_dim = 192,
                   .default_norm_eps = 1e-5f,
                   .rotary = false},
                  describe_mimo2)};
}

} // namespace pumice
