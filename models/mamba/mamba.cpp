#include "models/mamba/mamba.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"

namespace pumice {

namespace {

constexpr std::string_view mamba_component = "attention";

// The slices of the convolution's weights, one after the other.
class Convolutions {
public:
  Convolutions(DecoderBuilder& builder, const MambaConfig& config, const std::string& prefix, uint32_t rows)
      : builder_(builder), config_(config), full_(prefix + "conv1d"), name_{full_, "ssm_conv1d"},
        taps_(builder.channel_taps(name_, rows, config.taps, mamba_component)) {
    if (config.convolution_bias) bias_ = builder.tensor(name_, ".bias", rows, 0, mamba_component);
  }

  TensorId next(TensorId x, const char* suffix) {
    const uint32_t columns = builder_.graph().tensor(x).columns;
    CausalConvolution operation;
    operation.state = builder_.next_state();
    operation.taps = config_.taps;
    operation.activation = Activation::silu;
    std::optional<WeightId> bias;
    if (bias_) bias = builder_.weight(bias_->slice(first_, columns), mamba_component);
    const WeightId taps = builder_.weight(taps_.slice(first_, columns), mamba_component);
    first_ += columns;
    return causal_convolution(builder_.graph(), builder_.node_name(name_) + suffix, x, taps, bias, operation);
  }

private:
  DecoderBuilder& builder_;
  const MambaConfig& config_;
  std::string full_;
  TensorName name_;
  WeightView taps_;
  std::optional<WeightView> bias_;
  uint32_t first_ = 0;
};

TensorId gated_norm(DecoderBuilder& builder, TensorId y, TensorId z, const MambaConfig& config,
                    const std::string& prefix) {
  Graph& graph = builder.graph();
  const std::string name = builder.prefix() + prefix;
  const auto gated = [&](TensorId x) {
    return gate_every_row(graph, name + "gated", z, x, Activation::silu);
  };
  if (!config.norm) return gated(y);
  const std::string norm_name = prefix + "norm";
  const TensorName norm = {norm_name, "ssm_norm"};
  const auto normed = [&](TensorId x) {
    const float eps = builder.config().norm_eps;
    const uint32_t groups = config.norm_groups;
    const WeightView view = builder.vector_tensor(norm, ".weight", config.columns(),
                                                  {groups, config.columns() / groups}, "norms");
    const WeightId weight = builder.weight(view, "norms");
    if (groups == 1) return rms_norm(graph, builder.node_name(norm), x, weight, eps);
    return head_norm(graph, builder.node_name(norm), x, weight, config.columns() / config.norm_groups, eps);
  };
  return config.norm_before_gate ? gated(normed(y)) : normed(gated(y));
}

// Biases and the norm are where the file has them.
Result<MambaConfig> read_gguf_mamba(const Settings& settings) {
  MambaConfig mamba;
  const SettingName heads = {"", "ssm.time_step_rank"}, inner = {"", "ssm.inner_size"},
                    groups = {"", "ssm.group_count"};
  PUMICE_TRY(mamba.heads, settings.u32(heads, 1, limits::heads));
  PUMICE_TRY(const uint32_t columns, settings.u32(inner, 1, limits::columns));
  PUMICE_TRY(mamba.groups, settings.u32_or(groups, 1, limits::heads, 1));
  if (columns % mamba.heads || columns / mamba.heads > limits::heads) {
    return settings.error(inner,
                          fmt::format("expected a multiple of the {} heads; found {}", mamba.heads, columns));
  }
  if (mamba.heads % mamba.groups) {
    return settings.error(
        groups, fmt::format("expected a divisor of the {} heads; found {}", mamba.heads, mamba.groups));
  }
  mamba.head_dim = columns / mamba.heads;
  PUMICE_TRY(mamba.size, settings.u32({"", "ssm.state_size"}, 1, limits::heads));
  PUMICE_TRY(mamba.taps, settings.u32({"", "ssm.conv_kernel"}, 2, CausalConvolution::most_taps));
  mamba.convolution_bias = settings.has_tensor(".ssm_conv1d.bias");
  mamba.norm = settings.has_tensor(".ssm_norm.weight");
  mamba.norm_groups = mamba.groups;
  mamba.most_step = std::numeric_limits<float>::max();
  return mamba;
}

// Why llama.cpp would compute the mixer otherwise.
std::optional<Error> unlike_gguf(const Settings& settings, const MambaConfig& mamba,
                                 const MambaSettingNames& names) {
  const auto refuse = [&](std::string_view field, std::string_view what) {
    return Error{Code::unsupported, fmt::format("{}: field '{}': GGUF's models with Mamba 2 {}",
                                                settings.file().path(), field, what)};
  };
  if (mamba.bias) return refuse(names.bias, "have no bias of the input projection");
  if (mamba.output_bias) return refuse(names.output_bias, "have no bias of the output projection");
  if (mamba.norm && mamba.norm_before_gate) return refuse("mamba_norm_before_gate", "norm after the gate");
  if (mamba.norm && mamba.norm_groups != mamba.groups)
    return refuse(names.groups, "norm each group by itself, and this one all groups together");
  if (mamba.least_step > 0 || mamba.most_step < std::numeric_limits<float>::max())
    return refuse("time_step_limit", "do not limit steps");
  return {};
}

} // namespace

Result<MambaConfig> read_mamba(const Settings& settings, const MambaSettingNames& names) {
  const auto number = [&](std::string_view name, uint32_t min, uint32_t max) {
    return settings.u32({name, ""}, min, max);
  };
  if (settings.gguf()) return read_gguf_mamba(settings);
  MambaConfig mamba;
  PUMICE_TRY(mamba.heads, number(names.heads, 1, limits::heads));
  PUMICE_TRY(mamba.head_dim, number(names.head_dim, 1, limits::heads));
  PUMICE_TRY(mamba.groups, settings.u32_or({names.groups, ""}, 1, limits::heads, 1));
  if (mamba.heads % mamba.groups) {
    return settings.error({names.groups, ""}, fmt::format("expected a divisor of the {} heads; found {}",
                                                          mamba.heads, mamba.groups));
  }
  PUMICE_TRY(mamba.size, number(names.size, 1, limits::heads));
  PUMICE_TRY(mamba.taps, number(names.taps, 2, CausalConvolution::most_taps));
  PUMICE_TRY(mamba.bias, settings.boolean_or({names.bias, ""}, false));
  PUMICE_TRY(mamba.output_bias, settings.boolean_or({names.output_bias, ""}, false));
  PUMICE_TRY(mamba.convolution_bias, settings.boolean_or({names.convolution_bias, ""}, true));
  mamba.most_step = std::numeric_limits<float>::max();
  if (!settings.has({"time_step_limit", ""})) return mamba;
  PUMICE_TRY(const std::vector<float> limit, settings.fields().f32_array("time_step_limit"));
  if (limit.size() != 2) return settings.error({"time_step_limit", ""}, "expected two numbers");
  mamba.least_step = limit[0];
  mamba.most_step = limit[1];
  return mamba;
}

void add_mamba(const Settings& settings, const MambaConfig& mamba, const MambaSettingNames& names, Decoder& d,
               const std::vector<bool>& mixes) {
  const uint32_t shared = mamba.groups * mamba.size;
  for (uint32_t layer = 0; layer < d.config.layers; ++layer) {
    if (mixes.empty() ? !d.config.attends.empty() && d.config.attends[layer] : !mixes[layer]) continue;
    for (uint32_t columns : {mamba.columns(), shared, shared})
      d.config.states.push_back(CausalConvolution::state_floats(columns, mamba.taps));
    d.config.states.push_back(mamba.columns() * mamba.size);
  }
  d.shown.push_back(
      {"mamba", fmt::format("{} heads of {}, states of {} in {} groups, convolutions of {}", mamba.heads,
                            mamba.head_dim, mamba.size, mamba.groups, mamba.taps)});
  d.gguf_metadata.update({{"ssm.conv_kernel", mamba.taps},
                          {"ssm.state_size", mamba.size},
                          {"ssm.inner_size", mamba.columns()},
                          {"ssm.group_count", mamba.groups},
                          {"ssm.time_step_rank", mamba.heads}});
  d.gguf_refusal = unlike_gguf(settings, mamba, names);
}

TensorId mamba(DecoderBuilder& builder, TensorId x, const MambaConfig& config, const std::string& prefix) {
  Graph& graph = builder.graph();
  const uint32_t columns = config.columns(), shared = config.groups * config.size;
  const uint64_t counts[] = {columns, columns, shared, shared, config.heads};
  const std::string in_name = prefix + "in_proj", out_name = prefix + "out_proj";
  const TensorName in = {in_name, "ssm_in"};
  GgufTransform folded;
  for (float factor : config.factors) folded.part_scales.push_back(factor * config.gguf_input_scale);
  const auto matrices =
      builder.fused_tensor(in, ".weight", counts, graph.tensor(x).columns, 1, mamba_component, folded);
  std::vector<WeightView> biases;
  if (config.bias) biases = builder.fused_tensor(in, ".bias", counts, 0, 1, mamba_component);
  const auto part = [&](size_t index, const char* suffix) {
    const std::string name = builder.node_name(in) + suffix;
    const TensorId y =
        builder.project(x, name, matrices[index], config.bias ? &biases[index] : nullptr, mamba_component);
    return config.factors[index] == 1 ? y : scale(graph, name + "_scaled", y, config.factors[index]);
  };
  const TensorId z = part(0, ".z"), own = part(1, ".x"), b = part(2, ".b"), c = part(3, ".c");

  SelectiveScanInputs inputs;
  inputs.steps = part(4, ".steps");
  Convolutions convolutions(builder, config, prefix, columns + 2 * shared);
  inputs.x = convolutions.next(own, ".x");
  inputs.b = convolutions.next(b, ".b");
  inputs.c = convolutions.next(c, ".c");
  const auto vector = [&](const char* name, const char* gguf, std::vector<uint64_t> gguf_shape,
                          const GgufTransform& transform) {
    const std::string full = prefix + name;
    const TensorName names = {full, gguf};
    return builder.weight(
        builder.vector_tensor(names, "", config.heads, std::move(gguf_shape), mamba_component, transform),
        mamba_component);
  };
  GgufTransform decays;
  decays.negative_exp = true;
  inputs.step_bias = vector("dt_bias", "ssm_dt.bias", {config.heads}, {});
  inputs.a = vector("A_log", "ssm_a", {config.heads, 1}, decays);
  inputs.skip = vector("D", "ssm_d", {config.heads, 1}, {});
  SelectiveScan operation;
  operation.log_a = !builder.gguf();
  operation.state = builder.next_state();
  operation.heads = config.heads;
  operation.head_dim = config.head_dim;
  operation.groups = config.groups;
  operation.size = config.size;
  operation.least_step = config.least_step;
  operation.most_step = config.most_step;
  const TensorId y = selective_scan(graph, builder.prefix() + prefix + "scan", inputs, operation);
  const TensorName out = {out_name, "ssm_out"};
  const uint32_t hidden = builder.config().hidden;
  const WeightView matrix =
      builder.tensor(out, ".weight", hidden, columns, mamba_component, {0, 0, 0, config.gguf_result_scale});
  std::optional<WeightView> bias;
  if (config.output_bias) bias = builder.tensor(out, ".bias", hidden, 0, mamba_component);
  return builder.project(gated_norm(builder, y, z, config, prefix), builder.node_name(out), matrix,
                         bias ? &*bias : nullptr, mamba_component);
}

} // namespace pumice
