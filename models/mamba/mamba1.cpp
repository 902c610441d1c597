#include "models/mamba/mamba1.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"

namespace pumice {

namespace {

constexpr std::string_view mamba1_component = "attention";

// One of the three norms, if there are any.
TensorId mamba1_norm(DecoderBuilder& builder, TensorId x, const Mamba1Config& config,
                     const TensorName& name) {
  if (config.norms) return builder.ModelBuilder::rms_norm(x, name, config.norm_eps);
  if (!config.unit_norms) return x;
  const std::string ones_name = std::string(name.hugging_face) + ".ones";
  const WeightView ones = builder.derived_tensor(ones_name, {builder.graph().tensor(x).columns},
                                                 [](std::span<float> all) { std::ranges::fill(all, 1.0f); });
  return rms_norm(builder.graph(), builder.node_name(name), x, builder.weight(ones, "norms"),
                  config.norm_eps);
}

TensorId mamba1_convolution(DecoderBuilder& builder, TensorId x, const Mamba1Config& config,
                            const TensorName& name) {
  CausalConvolution operation;
  operation.state = builder.next_state();
  operation.taps = config.taps;
  operation.activation = Activation::silu;
  const WeightView taps = builder.channel_taps(name, config.columns, config.taps, mamba1_component);
  std::optional<WeightId> bias;
  if (config.convolution_bias)
    bias =
        builder.weight(builder.tensor(name, ".bias", config.columns, 0, mamba1_component), mamba1_component);
  return causal_convolution(builder.graph(), builder.node_name(name), x,
                            builder.weight(taps, mamba1_component), bias, operation);
}

} // namespace

Result<Mamba1Config> read_mamba1(const Settings& settings, const DecoderConfig& config,
                                 const Mamba1SettingNames& names) {
  Mamba1Config mamba;
  const SettingName rank = {names.rank, "ssm.time_step_rank"};
  PUMICE_TRY(mamba.size, settings.u32_or({names.size, "ssm.state_size"}, 1, limits::heads, 16));
  PUMICE_TRY(mamba.taps,
             settings.u32_or({names.taps, "ssm.conv_kernel"}, 2, CausalConvolution::most_taps, 4));
  mamba.rank = (config.hidden + 15) / 16;
  const auto* given = settings.has(rank) ? settings.fields().find(settings.name(rank)) : nullptr;
  if (given && *given != nlohmann::json("auto")) {
    PUMICE_TRY(mamba.rank, settings.u32(rank, 1, limits::columns));
  }
  mamba.norm_eps = config.norm_eps;
  if (config.activation != Activation::silu)
    return settings.error({"hidden_act", ""},
                          fmt::format("expected silu; found {}", to_string(config.activation)));
  if (settings.gguf()) {
    PUMICE_TRY(mamba.columns, settings.u32({"", "ssm.inner_size"}, 1, limits::columns));
    mamba.convolution_bias = settings.has_tensor(".ssm_conv1d.bias");
    return mamba;
  }
  PUMICE_TRY(const float expansion, settings.f32_or({names.expansion, ""}, 1e-3f, 1e3f, 2.0f));
  const SettingName columns = {"intermediate_size", ""};
  mamba.columns = static_cast<uint32_t>(expansion * static_cast<float>(config.hidden));
  if (names.expansion == "expand") { // in models that consist of it, where it is not a feed-forward's
    PUMICE_TRY(mamba.columns, settings.u32_or(columns, 1, limits::columns, mamba.columns));
  }
  PUMICE_TRY(mamba.bias, settings.boolean_or({names.bias, ""}, names.bias_by_default));
  PUMICE_TRY(mamba.convolution_bias, settings.boolean_or({names.convolution_bias, ""}, true));
  return mamba;
}

void add_mamba1(const Settings& settings, const Mamba1Config& mamba, const Mamba1SettingNames& names,
                Decoder& d) {
  for (uint32_t layer = 0; layer < d.config.layers; ++layer) {
    if (d.config.attends_in(layer)) continue;
    d.config.states.push_back(CausalConvolution::state_floats(mamba.columns, mamba.taps));
    d.config.states.push_back(mamba.columns * mamba.size);
  }
  d.shown.push_back(
      {"mamba", fmt::format("{} channels with states of {}, steps of rank {}, convolutions of {}",
                            mamba.columns, mamba.size, mamba.rank, mamba.taps)});
  d.gguf_metadata.update({{"ssm.conv_kernel", mamba.taps},
                          {"ssm.state_size", mamba.size},
                          {"ssm.inner_size", mamba.columns},
                          {"ssm.time_step_rank", mamba.rank}});
  if (mamba.bias) d.refuse_gguf(settings, names.bias, "have no biases of projections");
  if (!mamba.convolution_bias) d.refuse_gguf(settings, names.convolution_bias, "have biases of convolutions");
  if (mamba.columns != 2 * d.config.hidden)
    d.refuse_gguf(settings, names.expansion, "have twice as many channels as columns");
}

TensorId mamba1(DecoderBuilder& builder, TensorId x, const Mamba1Config& config, const std::string& prefix) {
  Graph& graph = builder.graph();
  const std::string in_name = prefix + "in_proj", x_name = prefix + "x_proj", dt_name = prefix + "dt_proj",
                    taps_name = prefix + "conv1d", out_name = prefix + "out_proj";
  const uint64_t halves[] = {config.columns, config.columns};
  const TensorName in = {in_name, "ssm_in"};
  const auto matrices =
      builder.fused_tensor(in, ".weight", halves, graph.tensor(x).columns, 1, mamba1_component);
  std::vector<WeightView> biases;
  if (config.bias) biases = builder.fused_tensor(in, ".bias", halves, 0, 1, mamba1_component);
  const auto half = [&](size_t index, const char* suffix) {
    return builder.project(x, builder.node_name(in) + suffix, matrices[index],
                           config.bias ? &biases[index] : nullptr, mamba1_component);
  };
  const TensorId own = half(0, ".x"), z = half(1, ".z");

  SelectiveScanInputs inputs;
  inputs.x = mamba1_convolution(builder, own, config, {taps_name, "ssm_conv1d"});
  const uint64_t counts[] = {config.rank, config.size, config.size};
  const TensorName selected = {x_name, "ssm_x"};
  const auto parts = builder.fused_tensor(selected, ".weight", counts, config.columns, 1, mamba1_component);
  const auto part = [&](size_t index, const char* suffix) {
    return builder.project(inputs.x, builder.node_name(selected) + suffix, parts[index], nullptr,
                           mamba1_component);
  };
  const std::string norm_names[] = {prefix + "dt_layernorm", prefix + "b_layernorm", prefix + "c_layernorm"};
  const TensorId steps = part(0, ".steps"), b = part(1, ".b"), c = part(2, ".c");
  const TensorId ranked = mamba1_norm(builder, steps, config, {norm_names[0], "ssm_dt_norm"});
  inputs.b = mamba1_norm(builder, b, config, {norm_names[1], "ssm_b_norm"});
  inputs.c = mamba1_norm(builder, c, config, {norm_names[2], "ssm_c_norm"});
  const TensorName dt = {dt_name, "ssm_dt"};
  inputs.steps = builder.project(ranked, dt, config.columns, false, mamba1_component);
  const auto vector = [&](const WeightView& view) { return builder.weight(view, mamba1_component); };
  inputs.step_bias = vector(builder.tensor(dt, ".bias", config.columns, 0, mamba1_component));
  const std::string decay_name = prefix + "A_log", skip_name = prefix + "D";
  GgufTransform decays;
  decays.negative_exp = true;
  inputs.a = vector(
      builder.tensor({decay_name, "ssm_a"}, "", config.columns, config.size, mamba1_component, decays));
  inputs.skip = vector(builder.tensor({skip_name, "ssm_d"}, "", config.columns, 0, mamba1_component));
  SelectiveScan operation;
  operation.log_a = !builder.gguf();
  operation.wide = true;
  operation.state = builder.next_state();
  operation.heads = config.columns;
  operation.head_dim = 1;
  operation.size = config.size;
  const TensorId scanned = selective_scan(graph, builder.prefix() + prefix + "scan", inputs, operation);
  const TensorId gated =
      gate_every_row(graph, builder.prefix() + prefix + "gated", z, scanned, Activation::silu);
  return builder.project(gated, {out_name, "ssm_out"}, builder.config().hidden, config.bias,
                         mamba1_component);
}

namespace {

constexpr Mamba1SettingNames mamba_names = {"state_size", "time_step_rank", "conv_kernel",
                                            "use_bias",   "use_conv_bias",  "expand"};

// Mamba (Gu and Dao 2023), and Falcon Mamba (TII 2024), which has norms without weights in the mixer.
Status describe_mamba1(const Settings& settings, Decoder& d) {
  const bool falcon = settings.architecture() == "falcon_mamba";
  Mamba1SettingNames names = mamba_names;
  names.bias_by_default = !falcon;
  PUMICE_TRY(Mamba1Config mamba, read_mamba1(settings, d.config, names));
  PUMICE_TRY(mamba.unit_norms, settings.boolean_or({"", "ssm.dt_b_c_rms"}, falcon));
  // llama.cpp knows only the other norms' epsilon.
  const SettingName eps = {"mixer_rms_eps", "ssm.dt_b_c_rms_epsilon"};
  PUMICE_TRY(mamba.norm_eps,
             settings.f32_or(eps, 0.0f, 1.0f, falcon && !settings.gguf() ? 1e-6f : d.config.norm_eps));
  d.config.attends.assign(d.config.layers, false);
  d.own_build = [mamba](const Decoder&, DecoderBuilder& builder) {
    build_attentionless(builder,
                        [&](DecoderBuilder& own, TensorId x) { return mamba1(own, x, mamba, "mixer."); });
  };
  add_mamba1(settings, mamba, names, d);
  d.gguf_metadata.update(attentionless_metadata());
  d.gguf_metadata["ssm.dt_b_c_rms"] = mamba.unit_norms;
  if (mamba.unit_norms) d.gguf_metadata[std::string(eps.gguf)] = mamba.norm_eps;
  return {};
}

} // namespace

Architectures mamba1_models() {
  return {decoder("mamba", {"mamba", "falcon_mamba"}, {"mamba"},
                  {.heads = {},
                   .kv_heads = {},
                   .head_dim = {},
                   .feed_forward = {},
                   .norm_eps = {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
                   .default_context = 1 << 20, // its state has no end
                   .default_head_dim = 1,
                   .default_norm_eps = 1e-5f,
                   .tied_by_default = true,
                   .rotary = false},
                  describe_mamba1)};
}

} // namespace pumice
