#include <algorithm>

#include <fmt/format.h>

#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// What GGUF has no keys for, and transformers takes where config.json says nothing.
constexpr uint32_t standard_chunk = 8192, standard_length = 8192, standard_period = 4;
constexpr float standard_growth = 0.1f;
constexpr uint32_t most_normed_experts = 64; // llama.cpp: the model with 128 experts has no norms of heads

struct Llama4Own {
  std::vector<bool> rotated; // by layer; the others' queries grow with their position
  RotaryConfig growing;      // for those
  bool head_norms = false;   // of rotated layers
};

AttentionStyle llama4_style(const DecoderConfig& config, const Llama4Own& own, uint32_t layer) {
  AttentionStyle style;
  style.chunked = config.windows[layer] > 0;
  if (own.rotated[layer]) {
    style.head_norms = style.unit_head_norms = own.head_norms;
  } else {
    style.rotary = &own.growing;
  }
  return style;
}

// The setting that llama.cpp takes to be another.
std::string_view unlike_gguf(const DecoderConfig& config, const MixtureConfig& mixture,
                             const Llama4Own& own) {
  const uint32_t step = mixture.dense_layers() + 1;
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool rotated = (layer + 1) % standard_period != 0;
    if (own.rotated[layer] != rotated) return "no_rope_layers";
    if (config.windows[layer] != (rotated ? standard_chunk : 0)) return "attention_chunk_size";
    if (mixture.sparse[layer] != ((layer + 1) % step == 0)) return "moe_layers";
  }
  if (own.growing.query_growth != standard_growth) return "attn_scale";
  if (own.growing.original_context != standard_length) return "floor_scale";
  if (own.head_norms != (mixture.experts <= most_normed_experts)) return "use_qk_norm";
  return {};
}

// A list of a value for each layer, or one of `period` layers has none.
Result<std::vector<bool>> read_rotated_layers(const Settings& settings, uint32_t layers) {
  const Fields& fields = settings.fields();
  std::vector<uint32_t> list;
  if (!settings.gguf()) {
    PUMICE_TRY(list, fields.u32_array_or_empty("no_rope_layers", 0, 1));
  }
  if (!list.empty() && list.size() != layers) {
    return fields.error("no_rope_layers",
                        fmt::format("expected one for each of the {} layers; found {}", layers, list.size()));
  }
  PUMICE_TRY(uint32_t period,
             settings.u32_or({"no_rope_layer_interval", ""}, 1, limits::layers, standard_period));
  std::vector<bool> rotated(list.begin(), list.end());
  for (uint32_t layer = 0; list.empty() && layer < layers; ++layer)
    rotated.push_back((layer + 1) % period != 0);
  return rotated;
}

// In GGUF a window of 0 says that all layers are as the rotated ones, without chunks.
Status read_chunks(const Settings& settings, DecoderConfig& config, Llama4Own& own) {
  const SettingName gguf_window = {"", "attention.sliding_window"};
  PUMICE_TRY(uint32_t window, settings.u32_or(gguf_window, 0, limits::context, standard_chunk));
  PUMICE_TRY(uint32_t chunk,
             settings.u32_or({"attention_chunk_size", ""}, 1, limits::context, standard_chunk));
  if (window == 0) {
    own.rotated.assign(config.layers, true);
    return {};
  }
  std::vector<std::string> types;
  if (settings.has({"layer_types", ""})) {
    PUMICE_TRY(types, settings.fields().string_array("layer_types"));
    if (types.size() != config.layers) {
      return settings.error(
          {"layer_types", ""},
          fmt::format("expected one for each of the {} layers; found {}", config.layers, types.size()));
    }
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool listed = !types.empty();
    const bool chunked = listed ? types[layer] == "chunked_attention" : own.rotated[layer];
    if (listed && !chunked && types[layer] != "full_attention") {
      return settings.error(
          {"layer_types", ""},
          fmt::format("expected chunked_attention or full_attention; found '{}'", types[layer]));
    }
    config.windows[layer] = chunked ? chunk : 0;
  }
  return {};
}

Result<std::vector<bool>> read_sparse_layers(const Settings& settings, uint32_t layers) {
  std::vector<bool> sparse(layers);
  const Fields& fields = settings.fields();
  if (!settings.gguf() && fields.has("moe_layers")) {
    PUMICE_TRY(std::vector<uint32_t> list, fields.u32_array("moe_layers", 0, layers - 1));
    for (uint32_t layer : list) sparse[layer] = true;
    return sparse;
  }
  PUMICE_TRY(uint32_t step, settings.u32_or({"interleave_moe_layer_step", "interleave_moe_layer_step"}, 1,
                                            limits::layers, 1));
  for (uint32_t layer = 0; layer < layers; ++layer) sparse[layer] = (layer + 1) % step == 0;
  return sparse;
}

Result<Llama4Own> read_llama4_own(const Settings& settings, const MixtureConfig& mixture,
                                  DecoderConfig& config) {
  Llama4Own own;
  PUMICE_TRY(own.rotated, read_rotated_layers(settings, config.layers));
  PUMICE_CHECK(read_chunks(settings, config, own));
  PUMICE_TRY(bool grows, settings.boolean_or({"attn_temperature_tuning", ""}, true));
  if (grows) {
    PUMICE_TRY(own.growing.query_growth, settings.f32_or({"attn_scale", ""}, 0.0f, 1e6f, standard_growth));
    PUMICE_TRY(own.growing.original_context,
               settings.u32_or({"floor_scale", ""}, 1, limits::context, standard_length));
    own.growing.growth_start = 1;
  }
  PUMICE_TRY(own.head_norms, settings.boolean_or({"use_qk_norm", ""}, true));
  if (settings.gguf()) own.head_norms = mixture.experts <= most_normed_experts;
  return own;
}

// Llama 4, text (Meta 2025): chunked attention, some layers without rotary positions, one of many experts for
// a token, whose input is multiplied by the sigmoid of its logit, beside a shared one.
Status describe_llama4(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("attention_bias", false, false));
  DecoderConfig& config = d.config;
  config.rotary.pairs = RotaryPairs::neighbouring;
  const MixtureDefaults defaults = {ExpertScore::sigmoid, false, false, false};
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, config, defaults)); // intermediate_size is the experts'
  PUMICE_TRY(config.feed_forward,
             settings.u32_or({"intermediate_size_mlp", ""}, 1, 4 * limits::columns, config.feed_forward));
  mixture.shared_feed_forward = mixture.feed_forward;
  mixture.scaled_inputs = true;
  PUMICE_TRY(mixture.sparse, read_sparse_layers(settings, config.layers));
  PUMICE_TRY(const Llama4Own own, read_llama4_own(settings, mixture, config));
  d.own_attention = [own](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    const AttentionStyle style = llama4_style(builder.config(), own, layer);
    return builder.attend_and_project(layer, builder.query_key_value(x, style), style);
  };
  d.feed_forward = {{"feed_forward.gate_proj", "ffn_gate"},
                    {"feed_forward.up_proj", "ffn_up"},
                    {"feed_forward.down_proj", "ffn_down"}};
  d.experts.stack = ExpertStack::gate_first;
  d.experts.router = {"feed_forward.router", "ffn_gate_inp"};
  d.experts.gate = {"feed_forward.experts.gate_up_proj", "ffn_gate_exps"};
  d.experts.up = {"feed_forward.experts.gate_up_proj", "ffn_up_exps"};
  d.experts.down = {"feed_forward.experts.down_proj", "ffn_down_exps"};
  d.experts.result = {"feed_forward", "experts"};
  d.experts.shared = {{"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                      {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                      {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
                      "shared_gated"};
  const std::string_view field = unlike_gguf(config, mixture, own);
  d.set_mixture(settings, std::move(mixture), {});
  d.gguf_metadata.erase("leading_dense_block_count");
  d.gguf_metadata["interleave_moe_layer_step"] = d.mixture->dense_layers() + 1;
  d.gguf_refusal.reset(); // only these count
  if (!field.empty()) d.refuse_gguf(settings, field, "have another value, which no key of GGUF changes");
  const auto rotated = std::ranges::count(own.rotated, true);
  d.shown.push_back({"rotated", fmt::format("{} of {} layers", rotated, config.layers)});
  d.shown.push_back({"query growth", fmt::format("{:g}, every {} tokens, in the others",
                                                 own.growing.query_growth, own.growing.original_context)});
  return {};
}

} // namespace

Architectures llama4_models() {
  return {decoder("llama4", {"llama4_text", "llama4"}, {"llama4"},
                  {.default_head_dim = 128, .default_norm_eps = 1e-5f}, describe_llama4)};
}

} // namespace pumice
