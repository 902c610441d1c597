#include "models/recurrence/mamba.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"

namespace pumice {

namespace {

constexpr std::string_view mamba_component = "attention";

// The slices of the convolution's weights, one after the other.
class Convolutions {
public:
  Convolutions(DecoderBuilder& builder, const MambaConfig& config, const std::string& prefix, uint32_t rows)
      : builder_(builder), config_(config), name_(prefix + "conv1d"),
        taps_(builder.channel_taps({name_, ""}, rows, config.taps, mamba_component)) {
    if (config.convolution_bias) bias_ = builder.tensor({name_, ""}, ".bias", rows, 0, mamba_component);
  }

  TensorId next(TensorId x, const char* suffix, uint32_t state) {
    const uint32_t columns = builder_.graph().tensor(x).columns;
    CausalConvolution operation;
    operation.state = state;
    operation.taps = config_.taps;
    operation.activation = Activation::silu;
    std::optional<WeightId> bias;
    if (bias_) bias = builder_.weight(bias_->slice(first_, columns), mamba_component);
    const WeightId taps = builder_.weight(taps_.slice(first_, columns), mamba_component);
    first_ += columns;
    return causal_convolution(builder_.graph(), builder_.node_name({name_, ""}) + suffix, x, taps, bias,
                              operation);
  }

private:
  DecoderBuilder& builder_;
  const MambaConfig& config_;
  std::string name_;
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
  const TensorName norm = {norm_name, ""};
  const auto normed = [&](TensorId x) {
    const float eps = builder.config().norm_eps;
    if (config.norm_groups == 1) return builder.rms_norm(x, norm);
    const WeightId weight = builder.norm_weight(norm, config.columns());
    return head_norm(graph, builder.node_name(norm), x, weight, config.columns() / config.norm_groups, eps);
  };
  return config.norm_before_gate ? gated(normed(y)) : normed(gated(y));
}

} // namespace

Result<MambaConfig> read_mamba(const Settings& settings, const MambaSettingNames& names) {
  const auto number = [&](std::string_view name, uint32_t min, uint32_t max) {
    return settings.u32({name, ""}, min, max);
  };
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

void add_states(const MambaConfig& mamba, std::vector<uint32_t>& states) {
  const uint32_t shared = mamba.groups * mamba.size;
  for (uint32_t columns : {mamba.columns(), shared, shared}) {
    states.push_back(CausalConvolution::state_floats(columns, mamba.taps));
  }
  states.push_back(mamba.columns() * mamba.size);
}

std::vector<Hyperparameter> hyperparameters(const MambaConfig& mamba) {
  return {{"mamba", fmt::format("{} heads of {}, states of {} in {} groups, convolutions of {}", mamba.heads,
                                mamba.head_dim, mamba.size, mamba.groups, mamba.taps)}};
}

TensorId mamba(DecoderBuilder& builder, TensorId x, const MambaConfig& config, const std::string& prefix,
               uint32_t& state) {
  Graph& graph = builder.graph();
  const uint32_t columns = config.columns(), shared = config.groups * config.size;
  const uint64_t counts[] = {columns, columns, shared, shared, config.heads};
  const std::string in_name = prefix + "in_proj", out_name = prefix + "out_proj";
  const TensorName in = {in_name, ""};
  const auto matrices =
      builder.fused_tensor(in, ".weight", counts, graph.tensor(x).columns, 1, mamba_component);
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
  inputs.x = convolutions.next(own, ".x", state++);
  inputs.b = convolutions.next(b, ".b", state++);
  inputs.c = convolutions.next(c, ".c", state++);
  const auto vector = [&](const char* name) {
    const std::string full = prefix + name;
    return builder.weight(builder.tensor({full, ""}, "", config.heads, 0, mamba_component), mamba_component);
  };
  inputs.step_bias = vector("dt_bias");
  inputs.a = vector("A_log");
  inputs.skip = vector("D");
  SelectiveScan operation;
  operation.state = state++;
  operation.heads = config.heads;
  operation.head_dim = config.head_dim;
  operation.groups = config.groups;
  operation.size = config.size;
  operation.least_step = config.least_step;
  operation.most_step = config.most_step;
  const TensorId y = selective_scan(graph, builder.prefix() + prefix + "scan", inputs, operation);
  return builder.project(gated_norm(builder, y, z, config, prefix), {out_name, ""}, builder.config().hidden,
                         config.output_bias, mamba_component);
}

} // namespace pumice
