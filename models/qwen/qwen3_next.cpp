#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"
#include "models/vision_language/picture_places.h"

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

// A head's query is followed by its gate.
TensorId gated_attention(DecoderBuilder& builder, uint32_t layer, TensorId x, bool biased) {
  AttentionStyle style;
  style.head_norms = true;
  style.head_norm_offset = 1;
  style.output_bias = biased;
  const TensorName name = {"self_attn.q_proj", "attn_q"};
  const uint64_t rows = builder.config().query_rows(), dim = builder.config().head_dim;
  const WeightView matrix =
      builder.tensor(name, ".weight", 2 * rows, builder.config().hidden, delta_component);
  std::optional<WeightView> bias;
  if (biased) bias = builder.tensor(name, ".bias", 2 * rows, 0, delta_component);
  const auto part = [&](size_t index, const char* suffix) {
    const auto half = [&](const WeightView& both) { return both.slice(index * dim, rows, dim, 2 * dim); };
    std::optional<WeightView> added;
    if (bias) added = half(*bias);
    return builder.project(x, builder.node_name(name) + suffix, half(matrix), added ? &*added : nullptr,
                           delta_component);
  };
  AttentionInputs inputs;
  inputs.query = part(0, ".query");
  inputs.key = builder.project(x, {"self_attn.k_proj", "attn_k"}, builder.config().key_rows(), biased,
                               delta_component);
  inputs.value = builder.project(x, {"self_attn.v_proj", "attn_v"}, builder.config().key_rows(), biased,
                                 delta_component);
  const TensorId opened = part(1, ".gate");
  const TensorId y = sigmoid_gate_every_row(builder.graph(), builder.prefix() + "gated_attention",
                                            builder.attend(layer, inputs, style), opened);
  return builder.project(y, style.output, builder.config().hidden, biased, delta_component);
}

// The value heads among a view's rows, in GGUF's order.
std::vector<WeightView> gguf_heads(const DeltaConfig& delta, const WeightView& view, uint64_t first,
                                   uint64_t dim) {
  if (!delta.tiled_in_gguf) return {view.slice(first, delta.value_heads * dim)};
  const uint64_t share = delta.value_heads / delta.key_heads;
  std::vector<WeightView> parts;
  for (uint64_t i = 0; i < share; ++i)
    parts.push_back(view.slice(first + i * dim, delta.key_heads * dim, dim, share * dim));
  return parts;
}

// A tensor whose rows are value heads of `dim` rows, in the order of the GGUF's architecture there.
WeightView heads_tensor(DecoderBuilder& builder, const DeltaConfig& delta, const TensorName& name,
                        std::string_view suffix, uint32_t dim, uint32_t columns,
                        const GgufTransform& transform = {}) {
  const uint64_t rows = uint64_t{delta.value_heads} * dim;
  if (builder.gguf()) return builder.tensor(name, suffix, rows, columns, delta_component);
  const WeightView view = builder.tensor({name.hugging_face, ""}, suffix, rows, columns, delta_component);
  std::vector<uint64_t> shape = {rows};
  if (columns) shape.push_back(columns);
  builder.add_gguf_tensor(name, suffix, std::move(shape), gguf_heads(delta, view, 0, dim), transform);
  return view;
}

std::vector<WeightView> projections_apart(DecoderBuilder& builder, const DeltaConfig& delta) {
  const uint64_t keys = delta.keys(), values = delta.values(), rows = 2 * keys + values;
  const TensorName fused = {"linear_attn.in_proj_qkv", "attn_qkv"};
  const TensorName unconverted = {fused.hugging_face, builder.gguf() ? fused.gguf : ""};
  const WeightView whole =
      builder.tensor(unconverted, ".weight", rows, builder.config().hidden, delta_component);
  std::vector<WeightView> parts = gguf_heads(delta, whole, 2 * keys, delta.value_dim);
  parts.insert(parts.begin(), whole.slice(0, 2 * keys));
  builder.add_gguf_tensor(fused, ".weight", {rows, builder.config().hidden}, std::move(parts));
  const WeightView gate = heads_tensor(builder, delta, {"linear_attn.in_proj_z", "attn_gate"}, ".weight",
                                       delta.value_dim, builder.config().hidden);
  return {whole.slice(0, keys), whole.slice(keys, keys), whole.slice(2 * keys, values), gate};
}

// Queries, keys, values and gates. The file has them by key head in one tensor, or the gates apart; the
// first GGUF files of Qwen 3 Next have them as Hugging Face's.
std::vector<WeightView> projections_by_head(DecoderBuilder& builder, const DeltaConfig& delta) {
  const uint64_t counts[] = {delta.keys(), delta.keys(), delta.values(), delta.values()};
  const TensorName fused = {"linear_attn.in_proj_qkvz", "ssm_in"};
  if (builder.gguf() && !builder.has(fused, ".weight")) return projections_apart(builder, delta);
  uint64_t rows = 0;
  for (uint64_t count : counts) rows += count;
  const TensorName unconverted = {fused.hugging_face, builder.gguf() ? fused.gguf : ""};
  const WeightView whole =
      builder.tensor(unconverted, ".weight", rows, builder.config().hidden, delta_component);
  std::vector<WeightView> views;
  uint64_t begin = 0;
  for (uint64_t count : counts) {
    const uint64_t part = count / delta.key_heads;
    views.push_back(whole.slice(begin, count, part, rows / delta.key_heads));
    begin += part;
  }
  builder.add_gguf_tensor({"", "attn_qkv"}, ".weight", {rows - delta.values(), builder.config().hidden},
                          {views[0], views[1], views[2]});
  builder.add_gguf_tensor({"", "attn_gate"}, ".weight", {delta.values(), builder.config().hidden},
                          {views[3]});
  return views;
}

// How fast a head learns, and what decides how much of its state it keeps.
std::vector<WeightView> gate_projections(DecoderBuilder& builder, const DeltaConfig& delta) {
  const uint32_t heads = delta.value_heads, hidden = builder.config().hidden;
  if (!delta.fused_by_head) {
    return {heads_tensor(builder, delta, {"linear_attn.in_proj_b", "ssm_beta"}, ".weight", 1, hidden),
            heads_tensor(builder, delta, {"linear_attn.in_proj_a", "ssm_alpha"}, ".weight", 1, hidden)};
  }
  const WeightView both =
      builder.tensor({"linear_attn.in_proj_ba", "ssm_ba"}, ".weight", 2 * heads, hidden, delta_component);
  const uint64_t share = heads / delta.key_heads;
  return {both.slice(0, heads, share, 2 * share), both.slice(share, heads, share, 2 * share)};
}

DeltaProjections project_all(DecoderBuilder& builder, const DeltaConfig& delta, TensorId x) {
  const auto all =
      delta.fused_by_head ? projections_by_head(builder, delta) : projections_apart(builder, delta);
  const auto two = gate_projections(builder, delta);
  const auto part = [&](const WeightView& matrix, const char* name) {
    return builder.project(x, builder.prefix() + "delta." + name, matrix, nullptr, delta_component);
  };
  return {part(all[0], "query"), part(all[1], "key"),   part(all[2], "value"),
          part(all[3], "gate"),  part(two[0], "rates"), part(two[1], "decays")};
}

WeightView convolution_taps(DecoderBuilder& builder, const DeltaConfig& delta, const TensorName& name) {
  const uint64_t keys = delta.keys(), rows = 2 * keys + delta.values();
  const TensorName unconverted = {name.hugging_face, builder.gguf() ? name.gguf : ""};
  const WeightView taps = builder.channel_taps(unconverted, rows, delta.taps, delta_component);
  std::vector<WeightView> parts = gguf_heads(delta, taps, 2 * keys, delta.value_dim);
  parts.insert(parts.begin(), taps.slice(0, 2 * keys));
  builder.add_gguf_tensor(name, ".weight", {rows, delta.taps}, std::move(parts));
  return taps;
}

TensorId delta_layer(DecoderBuilder& builder, const DeltaConfig& delta, TensorId x) {
  Graph& graph = builder.graph();
  const DeltaProjections in = project_all(builder, delta, x);
  const TensorName name = {"linear_attn.conv1d", "ssm_conv1d"};
  const WeightView taps = convolution_taps(builder, delta, name);
  uint32_t first = 0;
  const auto convolve = [&](TensorId from, const char* suffix) {
    const uint32_t columns = graph.tensor(from).columns;
    CausalConvolution operation;
    operation.state = builder.next_state();
    operation.taps = delta.taps;
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
    return builder.weight(heads_tensor(builder, delta, own, "", 1, 0, transform), delta_component);
  };
  GgufTransform logarithms;
  logarithms.negative_exp = true;
  inputs.decay_bias = vector({"linear_attn.dt_bias", "ssm_dt.bias"}, {});
  inputs.a = vector({"linear_attn.A_log", "ssm_a"}, logarithms);
  DeltaRule operation;
  operation.tiled = builder.gguf() && delta.tiled_in_gguf;
  operation.log_a = !builder.gguf();
  operation.state = builder.next_state();
  operation.key_heads = delta.key_heads;
  operation.key_dim = delta.key_dim;
  operation.value_heads = delta.value_heads;
  operation.value_dim = delta.value_dim;
  const TensorId y = delta_rule(graph, builder.prefix() + "delta_rule", inputs, operation);
  const TensorName norm = {"linear_attn.norm", "ssm_norm"};
  const TensorId normed =
      head_norm(graph, builder.node_name(norm), y, builder.norm_weight(norm, delta.value_dim),
                delta.value_dim, builder.config().norm_eps);
  const TensorId gated =
      gate_every_row(graph, builder.prefix() + "gated_delta", in.gate, normed, Activation::silu);
  const TensorName out = {"linear_attn.out_proj", "ssm_out"};
  GgufTransform order;
  if (delta.tiled_in_gguf) {
    order.tiled_groups = delta.key_heads;
    order.tiled_dim = delta.value_dim;
  }
  const WeightView matrix =
      builder.tensor(out, ".weight", builder.config().hidden, delta.values(), delta_component, order);
  return builder.project(gated, builder.node_name(out), matrix, nullptr, delta_component);
}

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
  const SettingName recurrent = {"", recurrent_layers_key};
  const GgufArray* list = settings.file().array(settings.name(recurrent));
  const std::vector<int64_t> flags = list ? list->integers() : std::vector<int64_t>();
  if (list && flags.size() < config.layers)
    return settings.error(recurrent, "expected a value for each layer");
  for (uint32_t layer = 0; layer < config.layers; ++layer)
    config.attends.push_back(list ? flags[layer] == 0 : attends(layer));
  return {};
}

// Mixtures of experts, with a shared one behind a gate. Newer files have all experts in one tensor.
Status read_qwen3_next_mixture(const Settings& settings, Decoder& d) {
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {}));
  PUMICE_TRY(mixture.shared_feed_forward,
             settings.u32({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, 1,
                          4 * limits::columns));
  mixture.shared_gate = true;
  for (const TensorView& tensor : settings.file().tensors()) {
    if (!tensor.name.ends_with(".mlp.experts.gate_up_proj")) continue;
    d.experts.stack = ExpertStack::gate_first_as_is;
    d.experts.gate.hugging_face = d.experts.up.hugging_face = "mlp.experts.gate_up_proj";
    d.experts.down.hugging_face = "mlp.experts.down_proj";
    break;
  }
  if (!mixture.routing.normalise)
    d.refuse_gguf(settings, "norm_topk_prob", "normalise the weights of a token's experts");
  if (std::ranges::find(mixture.sparse, false) != mixture.sparse.end())
    d.refuse_gguf(settings, "mlp_only_layers", "have no dense layers");
  d.set_mixture(settings, std::move(mixture), {});
  return {};
}

// Qwen 3 Next and Qwen 3.5 (Qwen Team 2025, 2026): the gated delta rule in three of four layers, attention
// with a gate in the others, and dense feed-forwards or mixtures of experts.
Status describe_qwen3_next(const Settings& settings, Decoder& d) {
  const std::string architecture = settings.architecture();
  const bool next = architecture == "qwen3_next" || architecture == "qwen3next";
  const bool sparse = next || architecture.find("moe") != std::string::npos;
  d.gguf_name = next ? "qwen3next" : sparse ? "qwen35moe" : "qwen35";
  DecoderConfig& config = d.config;
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  config.norm.weight_offset = 1;
  PUMICE_CHECK(read_delta_layers(settings, config));
  PUMICE_TRY(DeltaConfig delta, read_delta(settings));
  delta.fused_by_head = next;
  delta.tiled_in_gguf = !next;
  PUMICE_TRY(const bool bias, settings.boolean_or({"attention_bias", ""}, false));
  if (bias) d.refuse_gguf(settings, "attention_bias", "have no biases of attention");
  nlohmann::json recurrent = nlohmann::json::array();
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    recurrent.push_back(!config.attends[layer]);
    if (config.attends[layer]) continue;
    for (uint32_t columns : {delta.keys(), delta.keys(), delta.values()}) {
      config.states.push_back(CausalConvolution::state_floats(columns, delta.taps));
    }
    config.states.push_back(delta.values() * delta.key_dim);
  }
  d.norms = norms_before_renamed;
  d.own_attention = [bias](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    return gated_attention(builder, layer, x, bias);
  };
  d.mixer = [delta](DecoderBuilder& builder, uint32_t, TensorId x) { return delta_layer(builder, delta, x); };
  d.prediction = {.hugging_face = "mtp.", .block = "layers.0."};
  d.prediction.embedding_norm.hugging_face = "pre_fc_norm_embedding";
  d.prediction.hidden_norm.hugging_face = "pre_fc_norm_hidden";
  d.prediction.projection.hugging_face = "fc";
  d.prediction.norm.hugging_face = "norm";
  d.prediction.gives_normed = true;
  d.gguf_predicts = true;
  d.shown = {{"delta rule", fmt::format("{} heads of {} from {} of {}, convolutions of {}", delta.value_heads,
                                        delta.value_dim, delta.key_heads, delta.key_dim, delta.taps)}};
  const auto first = std::ranges::find(config.attends, true) - config.attends.begin();
  d.gguf_metadata = {
      {"ssm.conv_kernel", delta.taps},      {"ssm.state_size", delta.key_dim},
      {"ssm.group_count", delta.key_heads}, {"ssm.time_step_rank", delta.value_heads},
      {"ssm.inner_size", delta.values()},   {"full_attention_interval", static_cast<uint32_t>(first + 1)},
      {recurrent_layers_key, recurrent}};
  if (sparse) PUMICE_CHECK(read_qwen3_next_mixture(settings, d));
  const bool has_places = config.pictures && config.pictures->has_places();
  if (next || (settings.gguf() && !has_places)) return {};
  PUMICE_TRY(std::vector<uint32_t> sections, read_place_sections(settings, {11, 11, 10}));
  if (has_places) return set_picture_places(settings, sections, PlaceKind::interleaved, d);
  sections.resize(4); // as many as llama.cpp has
  d.gguf_metadata[place_sections_key] = sections;
  return {};
}

} // namespace

Architectures qwen3_next_models() {
  return {decoder("qwen3_next", {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"},
                  {"qwen3next", "qwen35", "qwen35moe"}, {.default_rotary_share = 0.25f},
                  describe_qwen3_next)};
}

} // namespace pumice
