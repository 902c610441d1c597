#include "models/qwen3_next/qwen3_next.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"
#include "model/gguf_model.h"
#include "models/decoder/mixture.h"

namespace pumice {

namespace {

constexpr std::string_view delta_component = "attention";

// The layers without attention.
struct DeltaConfig {
  uint32_t key_heads = 0, key_dim = 0;
  uint32_t value_heads = 0, value_dim = 0;
  uint32_t taps = 0;         // of the convolutions
  bool fused_by_head = true; // as in Qwen 3 Next; Qwen 3.5's projections are apart

  uint32_t keys() const { return key_heads * key_dim; }
  uint32_t values() const { return value_heads * value_dim; }
};

// The projections of a layer without attention, by head in one tensor or apart.
struct DeltaProjections {
  TensorId query = 0, key = 0, value = 0, gate = 0, rates = 0, decays = 0;
};

// Qwen 3 Next and Qwen 3.5 (Qwen Team 2025, 2026): the gated delta rule in three of four layers, attention
// with a gate in the others, and dense feed-forwards or mixtures of experts.
class Qwen3Next : public DecoderModel {
public:
  Qwen3Next(DecoderConfig config, bool gguf, const DeltaConfig& delta, std::optional<MixtureConfig> mixture,
            bool bias)
      : DecoderModel(std::move(config), gguf), delta_(delta), mixture_(std::move(mixture)), bias_(bias) {}

  Result<GgufModel> gguf(const ModelFile& file) const override { return ModelDefinition::gguf(file); }

protected:
  void build(DecoderBuilder& builder) const override {
    uint32_t state = 0;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before,
          [&](TensorId y) {
            return config().attends_in(layer) ? gated_attention(builder, layer, y)
                                              : delta_layer(builder, y, state);
          },
          [&](TensorId y) {
            return mixture_ ? mixture_or_dense(builder, layer, y, *mixture_) : builder.gated_feed_forward(y);
          });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    std::vector<Hyperparameter> all = {
        {"delta rule", fmt::format("{} heads of {} from {} of {}, convolutions of {}", delta_.value_heads,
                                   delta_.value_dim, delta_.key_heads, delta_.key_dim, delta_.taps)}};
    if (!mixture_) return all;
    for (Hyperparameter& own : pumice::hyperparameters(*mixture_)) all.push_back(std::move(own));
    return all;
  }
  std::string_view gguf_architecture() const override { return ""; }

private:
  // A head's query is followed by its gate.
  TensorId gated_attention(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    AttentionStyle style;
    style.head_norms = true;
    style.head_norm_offset = 1;
    style.output_bias = bias_;
    const TensorName name = {"self_attn.q_proj", ""};
    const uint64_t counts[] = {config().query_rows(), config().query_rows()};
    const uint64_t groups = config().heads;
    const auto matrices =
        builder.fused_tensor(name, ".weight", counts, config().hidden, groups, delta_component);
    std::vector<WeightView> biases;
    if (bias_) biases = builder.fused_tensor(name, ".bias", counts, 0, groups, delta_component);
    const auto part = [&](size_t index, const char* suffix) {
      return builder.project(x, builder.node_name(name) + suffix, matrices[index],
                             bias_ ? &biases[index] : nullptr, delta_component);
    };
    AttentionInputs inputs;
    inputs.query = part(0, ".query");
    inputs.key = builder.project(x, {"self_attn.k_proj", ""}, config().key_rows(), bias_, delta_component);
    inputs.value = builder.project(x, {"self_attn.v_proj", ""}, config().key_rows(), bias_, delta_component);
    const TensorId opened = part(1, ".gate");
    const TensorId y = sigmoid_gate_every_row(builder.graph(), builder.prefix() + "gated_attention",
                                              builder.attend(layer, inputs, style), opened);
    return builder.project(y, style.output, config().hidden, bias_, delta_component);
  }

  DeltaProjections project_by_head(DecoderBuilder& builder, TensorId x) const {
    const uint64_t counts[] = {delta_.keys(), delta_.keys(), delta_.values(), delta_.values()};
    const uint64_t small[] = {delta_.value_heads, delta_.value_heads};
    const TensorName name = {"linear_attn.in_proj_qkvz", ""}, gates = {"linear_attn.in_proj_ba", ""};
    const auto all =
        builder.fused_tensor(name, ".weight", counts, config().hidden, delta_.key_heads, delta_component);
    const auto two =
        builder.fused_tensor(gates, ".weight", small, config().hidden, delta_.key_heads, delta_component);
    const auto part = [&](const TensorName& from, const WeightView& matrix, const char* suffix) {
      return builder.project(x, builder.node_name(from) + suffix, matrix, nullptr, delta_component);
    };
    return {part(name, all[0], ".query"), part(name, all[1], ".key"),    part(name, all[2], ".value"),
            part(name, all[3], ".gate"),  part(gates, two[0], ".rates"), part(gates, two[1], ".decays")};
  }

  DeltaProjections project_apart(DecoderBuilder& builder, TensorId x) const {
    const uint64_t counts[] = {delta_.keys(), delta_.keys(), delta_.values()};
    const TensorName name = {"linear_attn.in_proj_qkv", ""};
    const auto all = builder.fused_tensor(name, ".weight", counts, config().hidden, 1, delta_component);
    const auto part = [&](size_t index, const char* suffix) {
      return builder.project(x, builder.node_name(name) + suffix, all[index], nullptr, delta_component);
    };
    const auto other = [&](const TensorName& own, uint32_t rows) {
      return builder.project(x, own, rows, false, delta_component);
    };
    return {part(0, ".query"),
            part(1, ".key"),
            part(2, ".value"),
            other({"linear_attn.in_proj_z", ""}, delta_.values()),
            other({"linear_attn.in_proj_b", ""}, delta_.value_heads),
            other({"linear_attn.in_proj_a", ""}, delta_.value_heads)};
  }

  TensorId delta_layer(DecoderBuilder& builder, TensorId x, uint32_t& state) const {
    Graph& graph = builder.graph();
    const DeltaProjections in =
        delta_.fused_by_head ? project_by_head(builder, x) : project_apart(builder, x);
    const TensorName name = {"linear_attn.conv1d", ""};
    const WeightView taps =
        builder.channel_taps(name, 2 * delta_.keys() + delta_.values(), delta_.taps, delta_component);
    uint32_t first = 0;
    const auto convolve = [&](TensorId from, const char* suffix) {
      const uint32_t columns = graph.tensor(from).columns;
      CausalConvolution operation;
      operation.state = state++;
      operation.taps = delta_.taps;
      operation.activation = Activation::silu;
      const WeightId own = builder.weight(taps.slice(first, columns), delta_component);
      first += columns;
      return causal_convolution(graph, builder.node_name(name) + suffix, from, own, {}, operation);
    };
    DeltaRuleInputs inputs;
    inputs.query = convolve(in.query, ".query");
    inputs.key = convolve(in.key, ".key");
    inputs.value = convolve(in.value, ".value");
    inputs.decays = in.decays;
    inputs.rates = in.rates;
    const auto vector = [&](const TensorName& own) {
      return builder.weight(builder.tensor(own, "", delta_.value_heads, 0, delta_component), delta_component);
    };
    inputs.decay_bias = vector({"linear_attn.dt_bias", ""});
    inputs.a = vector({"linear_attn.A_log", ""});
    DeltaRule operation;
    operation.state = state++;
    operation.key_heads = delta_.key_heads;
    operation.key_dim = delta_.key_dim;
    operation.value_heads = delta_.value_heads;
    operation.value_dim = delta_.value_dim;
    const TensorId y = delta_rule(graph, builder.prefix() + "delta_rule", inputs, operation);
    const TensorName norm = {"linear_attn.norm", ""};
    const TensorId normed =
        head_norm(graph, builder.node_name(norm), y, builder.norm_weight(norm, delta_.value_dim),
                  delta_.value_dim, config().norm_eps);
    const TensorId gated =
        gate_every_row(graph, builder.prefix() + "gated_delta", in.gate, normed, Activation::silu);
    return builder.project(gated, {"linear_attn.out_proj", ""}, config().hidden, false, delta_component);
  }

  DeltaConfig delta_;
  std::optional<MixtureConfig> mixture_;
  bool bias_;
};

Result<DeltaConfig> read_delta(const Settings& settings) {
  DeltaConfig delta;
  const auto number = [&](std::string_view name, uint32_t least, uint32_t most) {
    return settings.u32({name, ""}, least, most);
  };
  PUMICE_TRY(delta.key_heads, number("linear_num_key_heads", 1, limits::heads));
  PUMICE_TRY(delta.key_dim, number("linear_key_head_dim", 1, limits::heads));
  PUMICE_TRY(delta.value_heads, number("linear_num_value_heads", 1, limits::heads));
  PUMICE_TRY(delta.value_dim, number("linear_value_head_dim", 1, limits::heads));
  PUMICE_TRY(delta.taps, number("linear_conv_kernel_dim", 2, CausalConvolution::most_taps));
  if (delta.value_heads % delta.key_heads) {
    return settings.error({"linear_num_value_heads", ""},
                          fmt::format("expected a multiple of the {} heads of keys; found {}",
                                      delta.key_heads, delta.value_heads));
  }
  return delta;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen3_next(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.default_rotary_share = 0.25f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.weight_offset = 1;
  PUMICE_TRY(const uint32_t period, settings.u32_or({"full_attention_interval", ""}, 1, limits::layers, 4));
  PUMICE_CHECK(read_attention_layers(
      settings, "full_attention", "linear_attention",
      [&](uint32_t layer) { return (layer + 1) % period == 0; }, config));
  PUMICE_TRY(DeltaConfig delta, read_delta(settings));
  delta.fused_by_head = file.architecture() == "qwen3_next";
  PUMICE_TRY(const bool bias, settings.boolean_or({"attention_bias", ""}, false));
  std::optional<MixtureConfig> mixture;
  if (file.architecture() != "qwen3_5_text") {
    PUMICE_TRY(mixture, read_mixture(settings, config, {}));
    PUMICE_TRY(mixture->shared_feed_forward,
               settings.u32({"shared_expert_intermediate_size", ""}, 1, 4 * limits::columns));
    mixture->shared_gate = true;
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (config.attends[layer]) continue;
    for (uint32_t columns : {delta.keys(), delta.keys(), delta.values()}) {
      config.states.push_back(CausalConvolution::state_floats(columns, delta.taps));
    }
    config.states.push_back(delta.values() * delta.key_dim);
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Qwen3Next>(std::move(config), settings.gguf(), delta, std::move(mixture), bias));
}

} // namespace pumice
