#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/mamba/mamba.h"

namespace pumice {

namespace {

// What Falcon-H1 has besides a decoder's settings, with factors of what parts of a layer read or give.
struct FalconH1 {
  MambaConfig mamba;
  bool attention_bias = false, feed_forward_bias = false;
  float attention_input = 1, attention_result = 1, key = 1;
  float mamba_input = 1, mamba_result = 1;
  float gate = 1, down = 1;
};

TensorId scaled(DecoderBuilder& builder, TensorId x, float factor, const char* name) {
  return factor == 1 ? x : scale(builder.graph(), builder.prefix() + name, x, factor);
}

// llama.cpp's files have its weight without the usual suffix.
TensorId norm_feed_forward(DecoderBuilder& builder, TensorId x) {
  TensorName name = {"pre_ff_layernorm.weight", "ffn_norm"};
  if (builder.has({"", "ffn_norm"}, ".weight")) name.gguf = "ffn_norm.weight";
  const WeightView weight = builder.tensor(name, "", builder.config().hidden, 0, "norms");
  return rms_norm(builder.graph(), builder.prefix() + "feed_forward_input", x,
                  builder.weight(weight, "norms"), builder.config().norm_eps);
}

// A projection of x * input, multiplied by `result` where GGUF's weights have both factors already.
TensorId project(DecoderBuilder& builder, TensorId x, const TensorName& name, uint32_t rows, bool bias,
                 float input, float result) {
  const std::string_view component = "feed-forward";
  const WeightView matrix = builder.tensor(name, ".weight", rows, builder.graph().tensor(x).columns,
                                           component, {0, 0, 0, input * result});
  std::optional<WeightView> added;
  if (bias) added = builder.tensor(name, ".bias", rows, 0, component, {0, 0, 0, result});
  const std::string node = builder.node_name(name);
  const TensorId y = builder.project(x, node, matrix, added ? &*added : nullptr, component);
  return result == 1 ? y : scale(builder.graph(), node + "_scaled", y, result);
}

TensorId mix(DecoderBuilder& builder, const FalconH1& own, uint32_t layer, TensorId x) {
  const TensorId input = scaled(builder, x, own.mamba_input, "mamba_input");
  const TensorId mixed =
      scaled(builder, mamba(builder, input, own.mamba, "mamba."), own.mamba_result, "mamba_result");
  const bool bias = own.attention_bias;
  const float factor = own.attention_input;
  const TensorId seen = scaled(builder, x, factor, "attention_input");
  AttentionInputs inputs;
  inputs.query =
      project(builder, seen, {"self_attn.q_proj", "attn_q"}, builder.config().query_rows(), bias, factor, 1);
  inputs.key = project(builder, seen, {"self_attn.k_proj", "attn_k"}, builder.config().key_rows(), bias,
                       factor, own.key);
  inputs.value =
      project(builder, seen, {"self_attn.v_proj", "attn_v"}, builder.config().key_rows(), bias, factor, 1);
  const AttentionStyle style;
  const TensorId attended = project(builder, builder.attend(layer, inputs, style), style.output,
                                    builder.config().hidden, bias, 1, own.attention_result);
  return builder.add(mixed, attended, "mixed");
}

TensorId feed_forward(DecoderBuilder& builder, const FalconH1& own, TensorId x) {
  x = norm_feed_forward(builder, x);
  const bool bias = own.feed_forward_bias;
  const uint32_t rows = builder.config().feed_forward;
  const TensorId gated = project(builder, x, {"feed_forward.gate_proj", "ffn_gate"}, rows, bias, 1, own.gate);
  const TensorId up = project(builder, x, {"feed_forward.up_proj", "ffn_up"}, rows, bias, 1, 1);
  const TensorId y =
      gate(builder.graph(), builder.prefix() + "gated", gated, up, builder.config().activation);
  return project(builder, y, {"feed_forward.down_proj", "ffn_down"}, builder.config().hidden, bias, 1,
                 own.down);
}

Result<MambaConfig> read_falcon_mamba(const Settings& settings, const MambaSettingNames& names) {
  PUMICE_TRY(MambaConfig mamba, read_mamba(settings, names));
  if (settings.gguf()) return mamba;
  PUMICE_TRY(mamba.norm, settings.boolean_or({"mamba_rms_norm", ""}, false));
  PUMICE_TRY(mamba.norm_before_gate, settings.boolean_or({"mamba_norm_before_gate", ""}, true));
  mamba.norm_groups = mamba.groups;
  const SettingName columns = {"mamba_d_ssm", ""};
  PUMICE_TRY(const uint32_t found, settings.u32_or(columns, 1, limits::columns, mamba.columns()));
  if (found != mamba.columns()) {
    return settings.error(
        columns, fmt::format("expected {}, the heads' dimensions; found {}", mamba.columns(), found));
  }
  if (!settings.has({"ssm_multipliers", ""})) return mamba;
  PUMICE_TRY(const std::vector<float> factors, settings.fields().f32_array("ssm_multipliers"));
  if (factors.size() != mamba.factors.size()) {
    return settings.error({"ssm_multipliers", ""}, "expected five numbers");
  }
  std::ranges::copy(factors, mamba.factors.begin());
  return mamba;
}

Status read_factors(const Settings& settings, DecoderConfig& config, FalconH1& own) {
  for (const auto& [name, to] : {std::pair("attention_in_multiplier", &own.attention_input),
                                 {"attention_out_multiplier", &own.attention_result},
                                 {"key_multiplier", &own.key},
                                 {"ssm_in_multiplier", &own.mamba_input},
                                 {"ssm_out_multiplier", &own.mamba_result},
                                 {"embedding_multiplier", &config.embedding_scale},
                                 {"lm_head_multiplier", &config.logit_scale}}) {
    PUMICE_TRY(*to, settings.f32_or({name, ""}, 1e-6f, 1e6f, 1));
  }
  if (!settings.has({"mlp_multipliers", ""})) return {};
  PUMICE_TRY(const std::vector<float> pair, settings.fields().f32_array("mlp_multipliers"));
  if (pair.size() != 2) return settings.error({"mlp_multipliers", ""}, "expected two numbers");
  own.gate = pair[0];
  own.down = pair[1];
  return {};
}

// Falcon-H1 (TII 2025): attention and Mamba 2 side by side in each layer.
Status describe_falcon_h1(const Settings& settings, Decoder& d) {
  MambaSettingNames names = hybrid_mamba_settings;
  names.output_bias = "projectors_bias";
  FalconH1 own;
  PUMICE_TRY(own.mamba, read_falcon_mamba(settings, names));
  PUMICE_CHECK(d.read_biases(settings));
  own.attention_bias = d.style.input_bias;
  own.feed_forward_bias = d.feed_forward_bias;
  PUMICE_CHECK(read_factors(settings, d.config, own));
  own.mamba.gguf_input_scale = own.mamba_input;
  own.mamba.gguf_result_scale = own.mamba_result;
  d.config.gguf_folds_factors = true;
  d.config.gguf_needs_head = d.config.embedding_scale != 1 || d.config.logit_scale != 1;
  d.names.norm = {"model.final_layernorm", "output_norm"};
  d.norms = one_norm;
  d.own_attention = [own](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    return mix(builder, own, layer, x);
  };
  d.own_feed_forward = [own](DecoderBuilder& builder, uint32_t, TensorId x) {
    return feed_forward(builder, own, x);
  };
  add_mamba(settings, own.mamba, names, d);
  return {};
}

} // namespace

Architectures falcon_h1_models() {
  return {
      decoder("falcon_h1", {"falcon_h1"}, {"falcon-h1"}, {.default_norm_eps = 1e-5f}, describe_falcon_h1)};
}

} // namespace pumice
