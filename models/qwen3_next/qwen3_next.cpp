#include "models/qwen3_next/qwen3_next.h"

#include <algorithm>

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
  // GGUF has the first value heads of all key heads first, then the second ones, as in Qwen 3.5.
  bool tiled_in_gguf = false;

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
            bool bias, const MixtureNames& experts, std::vector<int32_t> sections)
      : DecoderModel(std::move(config), gguf), delta_(delta), mixture_(std::move(mixture)), bias_(bias),
        experts_(experts), rotary_sections_(std::move(sections)) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    const auto refuse = [&](const char* field, const char* what) {
      return Error{Code::unsupported, fmt::format("{}: field '{}': GGUF's {} models {}", file.path(), field,
                                                  gguf_architecture(), what)};
    };
    if (bias_) return refuse("attention_bias", "have no biases of attention");
    if (mixture_ && !mixture_->routing.normalise)
      return refuse("norm_topk_prob", "normalise the weights of a token's experts");
    if (mixture_ && std::ranges::find(mixture_->sparse, false) != mixture_->sparse.end())
      return refuse("mlp_only_layers", "have no dense layers");
    return DecoderModel::gguf(file);
  }

protected:
  void build(DecoderBuilder& builder) const override {
    uint32_t state = 0;
    const BlockNorms norms = {
        {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "post_attention_norm"}, {}};
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms,
          [&](TensorId y) {
            return config().attends_in(layer) ? gated_attention(builder, layer, y)
                                              : delta_layer(builder, y, state);
          },
          [&](TensorId y) {
            return mixture_ ? mixture_or_dense(builder, layer, y, *mixture_, experts_)
                            : builder.gated_feed_forward(y);
          });
    };
    builder.decode(block);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    std::vector<Hyperparameter> all = {
        {"delta rule", fmt::format("{} heads of {} from {} of {}, convolutions of {}", delta_.value_heads,
                                   delta_.value_dim, delta_.key_heads, delta_.key_dim, delta_.taps)}};
    if (!mixture_) return all;
    for (Hyperparameter& own : pumice::hyperparameters(*mixture_)) all.push_back(std::move(own));
    return all;
  }
  std::string_view gguf_architecture() const override {
    if (delta_.fused_by_head) return "qwen3next";
    return mixture_ ? "qwen35moe" : "qwen35";
  }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json recurrent = nlohmann::json::array();
    for (bool attends : config().attends) recurrent.push_back(!attends);
    const auto first = std::ranges::find(config().attends, true) - config().attends.begin();
    nlohmann::json metadata = {{"ssm.conv_kernel", delta_.taps},
                               {"ssm.state_size", delta_.key_dim},
                               {"ssm.group_count", delta_.key_heads},
                               {"ssm.time_step_rank", delta_.value_heads},
                               {"ssm.inner_size", delta_.values()},
                               {"full_attention_interval", static_cast<uint32_t>(first + 1)},
                               {"attention.recurrent_layers", recurrent}};
    if (!delta_.fused_by_head) metadata["rope.dimension_sections"] = rotary_sections_;
    if (mixture_) metadata.update(gguf_mixture(*mixture_));
    return metadata;
  }

private:
  // A head's query is followed by its gate.
  TensorId gated_attention(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    AttentionStyle style;
    style.head_norms = true;
    style.head_norm_offset = 1;
    style.output_bias = bias_;
    const TensorName name = {"self_attn.q_proj", "attn_q"};
    const uint64_t rows = config().query_rows(), dim = config().head_dim;
    const WeightView matrix = builder.tensor(name, ".weight", 2 * rows, config().hidden, delta_component);
    std::optional<WeightView> bias;
    if (bias_) bias = builder.tensor(name, ".bias", 2 * rows, 0, delta_component);
    const auto part = [&](size_t index, const char* suffix) {
      const auto half = [&](const WeightView& both) { return both.slice(index * dim, rows, dim, 2 * dim); };
      std::optional<WeightView> added;
      if (bias) added = half(*bias);
      return builder.project(x, builder.node_name(name) + suffix, half(matrix), added ? &*added : nullptr,
                             delta_component);
    };
    AttentionInputs inputs;
    inputs.query = part(0, ".query");
    inputs.key =
        builder.project(x, {"self_attn.k_proj", "attn_k"}, config().key_rows(), bias_, delta_component);
    inputs.value =
        builder.project(x, {"self_attn.v_proj", "attn_v"}, config().key_rows(), bias_, delta_component);
    const TensorId opened = part(1, ".gate");
    const TensorId y = sigmoid_gate_every_row(builder.graph(), builder.prefix() + "gated_attention",
                                              builder.attend(layer, inputs, style), opened);
    return builder.project(y, style.output, config().hidden, bias_, delta_component);
  }

  // A tensor whose rows are value heads of `dim` rows, in the order of the GGUF's architecture there.
  WeightView heads_tensor(DecoderBuilder& builder, const TensorName& name, std::string_view suffix,
                          uint32_t dim, uint32_t columns, const GgufTransform& transform = {}) const {
    const uint64_t rows = uint64_t{delta_.value_heads} * dim;
    if (builder.gguf()) return builder.tensor(name, suffix, rows, columns, delta_component);
    const WeightView view = builder.tensor({name.hugging_face, ""}, suffix, rows, columns, delta_component);
    std::vector<uint64_t> shape = {rows};
    if (columns) shape.push_back(columns);
    builder.add_gguf_tensor(name, suffix, std::move(shape), gguf_heads(view, 0, dim), transform);
    return view;
  }

  // The value heads among a view's rows, in GGUF's order.
  std::vector<WeightView> gguf_heads(const WeightView& view, uint64_t first, uint64_t dim) const {
    if (!delta_.tiled_in_gguf) return {view.slice(first, delta_.value_heads * dim)};
    const uint64_t share = delta_.value_heads / delta_.key_heads;
    std::vector<WeightView> parts;
    for (uint64_t i = 0; i < share; ++i)
      parts.push_back(view.slice(first + i * dim, delta_.key_heads * dim, dim, share * dim));
    return parts;
  }

  // Queries, keys, values and gates. The file has them by key head in one tensor, or the gates apart; the
  // first GGUF files of Qwen 3 Next have them as Hugging Face's.
  std::vector<WeightView> projections_by_head(DecoderBuilder& builder) const {
    const uint64_t counts[] = {delta_.keys(), delta_.keys(), delta_.values(), delta_.values()};
    const TensorName fused = {"linear_attn.in_proj_qkvz", "ssm_in"};
    if (builder.gguf() && !builder.has(fused, ".weight")) return projections_apart(builder);
    uint64_t rows = 0;
    for (uint64_t count : counts) rows += count;
    const TensorName unconverted = {fused.hugging_face, builder.gguf() ? fused.gguf : ""};
    const WeightView whole = builder.tensor(unconverted, ".weight", rows, config().hidden, delta_component);
    std::vector<WeightView> views;
    uint64_t begin = 0;
    for (uint64_t count : counts) {
      const uint64_t part = count / delta_.key_heads;
      views.push_back(whole.slice(begin, count, part, rows / delta_.key_heads));
      begin += part;
    }
    builder.add_gguf_tensor({"", "attn_qkv"}, ".weight", {rows - delta_.values(), config().hidden},
                            {views[0], views[1], views[2]});
    builder.add_gguf_tensor({"", "attn_gate"}, ".weight", {delta_.values(), config().hidden}, {views[3]});
    return views;
  }

  std::vector<WeightView> projections_apart(DecoderBuilder& builder) const {
    const uint64_t keys = delta_.keys(), values = delta_.values(), rows = 2 * keys + values;
    const TensorName fused = {"linear_attn.in_proj_qkv", "attn_qkv"};
    const TensorName unconverted = {fused.hugging_face, builder.gguf() ? fused.gguf : ""};
    const WeightView whole = builder.tensor(unconverted, ".weight", rows, config().hidden, delta_component);
    std::vector<WeightView> parts = gguf_heads(whole, 2 * keys, delta_.value_dim);
    parts.insert(parts.begin(), whole.slice(0, 2 * keys));
    builder.add_gguf_tensor(fused, ".weight", {rows, config().hidden}, std::move(parts));
    const WeightView gate = heads_tensor(builder, {"linear_attn.in_proj_z", "attn_gate"}, ".weight",
                                         delta_.value_dim, config().hidden);
    return {whole.slice(0, keys), whole.slice(keys, keys), whole.slice(2 * keys, values), gate};
  }

  // How fast a head learns, and what decides how much of its state it keeps.
  std::vector<WeightView> gate_projections(DecoderBuilder& builder) const {
    const uint32_t heads = delta_.value_heads, hidden = config().hidden;
    if (!delta_.fused_by_head) {
      return {heads_tensor(builder, {"linear_attn.in_proj_b", "ssm_beta"}, ".weight", 1, hidden),
              heads_tensor(builder, {"linear_attn.in_proj_a", "ssm_alpha"}, ".weight", 1, hidden)};
    }
    const WeightView both =
        builder.tensor({"linear_attn.in_proj_ba", "ssm_ba"}, ".weight", 2 * heads, hidden, delta_component);
    const uint64_t share = heads / delta_.key_heads;
    return {both.slice(0, heads, share, 2 * share), both.slice(share, heads, share, 2 * share)};
  }

  DeltaProjections project_all(DecoderBuilder& builder, TensorId x) const {
    const auto all = delta_.fused_by_head ? projections_by_head(builder) : projections_apart(builder);
    const auto two = gate_projections(builder);
    const auto part = [&](const WeightView& matrix, const char* name) {
      return builder.project(x, builder.prefix() + "delta." + name, matrix, nullptr, delta_component);
    };
    return {part(all[0], "query"), part(all[1], "key"),   part(all[2], "value"),
            part(all[3], "gate"),  part(two[0], "rates"), part(two[1], "decays")};
  }

  WeightView convolution_taps(DecoderBuilder& builder, const TensorName& name) const {
    const uint64_t keys = delta_.keys(), rows = 2 * keys + delta_.values();
    const TensorName unconverted = {name.hugging_face, builder.gguf() ? name.gguf : ""};
    const WeightView taps = builder.channel_taps(unconverted, rows, delta_.taps, delta_component);
    std::vector<WeightView> parts = gguf_heads(taps, 2 * keys, delta_.value_dim);
    parts.insert(parts.begin(), taps.slice(0, 2 * keys));
    builder.add_gguf_tensor(name, ".weight", {rows, delta_.taps}, std::move(parts));
    return taps;
  }

  TensorId delta_layer(DecoderBuilder& builder, TensorId x, uint32_t& state) const {
    Graph& graph = builder.graph();
    const DeltaProjections in = project_all(builder, x);
    const TensorName name = {"linear_attn.conv1d", "ssm_conv1d"};
    const WeightView taps = convolution_taps(builder, name);
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
    const auto vector = [&](const TensorName& own, const GgufTransform& transform) {
      return builder.weight(heads_tensor(builder, own, "", 1, 0, transform), delta_component);
    };
    GgufTransform logarithms;
    logarithms.negative_exp = true;
    inputs.decay_bias = vector({"linear_attn.dt_bias", "ssm_dt.bias"}, {});
    inputs.a = vector({"linear_attn.A_log", "ssm_a"}, logarithms);
    DeltaRule operation;
    operation.tiled = builder.gguf() && delta_.tiled_in_gguf;
    operation.log_a = !builder.gguf();
    operation.state = state++;
    operation.key_heads = delta_.key_heads;
    operation.key_dim = delta_.key_dim;
    operation.value_heads = delta_.value_heads;
    operation.value_dim = delta_.value_dim;
    const TensorId y = delta_rule(graph, builder.prefix() + "delta_rule", inputs, operation);
    const TensorName norm = {"linear_attn.norm", "ssm_norm"};
    const TensorId normed =
        head_norm(graph, builder.node_name(norm), y, builder.norm_weight(norm, delta_.value_dim),
                  delta_.value_dim, config().norm_eps);
    const TensorId gated =
        gate_every_row(graph, builder.prefix() + "gated_delta", in.gate, normed, Activation::silu);
    const TensorName out = {"linear_attn.out_proj", "ssm_out"};
    GgufTransform order;
    if (delta_.tiled_in_gguf) {
      order.tiled_groups = delta_.key_heads;
      order.tiled_dim = delta_.value_dim;
    }
    const WeightView matrix =
        builder.tensor(out, ".weight", config().hidden, delta_.values(), delta_component, order);
    return builder.project(gated, builder.node_name(out), matrix, nullptr, delta_component);
  }

  DeltaConfig delta_;
  std::optional<MixtureConfig> mixture_;
  bool bias_;
  MixtureNames experts_;
  std::vector<int32_t> rotary_sections_;
};

Result<DeltaConfig> read_delta(const Settings& settings) {
  DeltaConfig delta;
  const SettingName heads = {"linear_num_value_heads", "ssm.time_step_rank"},
                    values = {"linear_value_head_dim", "ssm.inner_size"};
  PUMICE_TRY(delta.key_heads, settings.u32({"linear_num_key_heads", "ssm.group_count"}, 1, limits::heads));
  PUMICE_TRY(delta.key_dim, settings.u32({"linear_key_head_dim", "ssm.state_size"}, 1, limits::heads));
  PUMICE_TRY(delta.value_heads, settings.u32(heads, 1, limits::heads));
  PUMICE_TRY(delta.value_dim, settings.u32(values, 1, settings.gguf() ? limits::columns : limits::heads));
  PUMICE_TRY(delta.taps,
             settings.u32({"linear_conv_kernel_dim", "ssm.conv_kernel"}, 2, CausalConvolution::most_taps));
  if (settings.gguf()) { // of all heads
    if (delta.value_dim % delta.value_heads) {
      return settings.error(values, fmt::format("expected a multiple of the {} heads; found {}",
                                                delta.value_heads, delta.value_dim));
    }
    delta.value_dim /= delta.value_heads;
  }
  if (delta.value_heads % delta.key_heads) {
    return settings.error(heads, fmt::format("expected a multiple of the {} heads of keys; found {}",
                                             delta.key_heads, delta.value_heads));
  }
  return delta;
}

Status read_delta_layers(const Settings& settings, DecoderConfig& config) {
  PUMICE_TRY(const uint32_t period,
             settings.u32_or({"full_attention_interval", "full_attention_interval"}, 1, limits::layers, 4));
  const auto attends = [&](uint32_t layer) { return (layer + 1) % period == 0; };
  if (!settings.gguf())
    return read_attention_layers(settings, "full_attention", "linear_attention", attends, config);
  const SettingName recurrent = {"", "attention.recurrent_layers"};
  const GgufArray* list = settings.file().array(settings.name(recurrent));
  const std::vector<int64_t> flags = list ? list->integers() : std::vector<int64_t>();
  if (list && flags.size() < config.layers)
    return settings.error(recurrent, "expected a value for each layer");
  for (uint32_t layer = 0; layer < config.layers; ++layer)
    config.attends.push_back(list ? flags[layer] == 0 : attends(layer));
  return {};
}

// Which pairs of dimensions turn with a picture's time, height and width. Those of a text are equal.
Result<std::vector<int32_t>> read_rotary_sections(const Settings& settings) {
  std::vector<int32_t> sections = {11, 11, 10};
  if (settings.gguf()) return sections;
  PUMICE_TRY(const Fields rotary, settings.fields().object_or_empty("rope_parameters"));
  if (rotary.has("mrope_section")) {
    PUMICE_TRY(const std::vector<uint32_t> found, rotary.u32_array("mrope_section", 0, limits::head_dim));
    sections.assign(found.begin(), found.end());
  }
  sections.resize(4); // as many as llama.cpp has
  return sections;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen3_next(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  const std::string architecture = settings.architecture();
  const bool next = architecture == "qwen3_next" || architecture == "qwen3next";
  const bool sparse = next || architecture.find("moe") != std::string::npos;
  DecoderConfigNames config_names;
  config_names.default_rotary_share = 0.25f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, config_names));
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  config.norm.weight_offset = 1;
  PUMICE_CHECK(read_delta_layers(settings, config));
  PUMICE_TRY(DeltaConfig delta, read_delta(settings));
  delta.fused_by_head = next;
  delta.tiled_in_gguf = !next;
  PUMICE_TRY(const bool bias, settings.boolean_or({"attention_bias", ""}, false));
  std::optional<MixtureConfig> mixture;
  if (sparse) {
    PUMICE_TRY(mixture, read_mixture(settings, config, {}));
    PUMICE_TRY(mixture->shared_feed_forward,
               settings.u32({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, 1,
                            4 * limits::columns));
    mixture->shared_gate = true;
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (config.attends[layer]) continue;
    for (uint32_t columns : {delta.keys(), delta.keys(), delta.values()}) {
      config.states.push_back(CausalConvolution::state_floats(columns, delta.taps));
    }
    config.states.push_back(delta.values() * delta.key_dim);
  }
  MixtureNames experts;
  for (const TensorView& tensor : file.tensors()) {
    if (!tensor.name.ends_with(".mlp.experts.gate_up_proj")) continue;
    experts.stack = ExpertStack::gate_first_as_is;
    experts.gate.hugging_face = experts.up.hugging_face = "mlp.experts.gate_up_proj";
    experts.down.hugging_face = "mlp.experts.down_proj";
    break;
  }
  PUMICE_TRY(std::vector<int32_t> sections, read_rotary_sections(settings));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen3Next>(
      std::move(config), settings.gguf(), delta, std::move(mixture), bias, experts, std::move(sections)));
}

} // namespace pumice
