#include "models/decoder/mixture.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"

namespace pumice {

namespace {

constexpr uint32_t max_experts = 1024;
constexpr std::string_view mixture_component = "feed-forward";

// GGUF's numbers of the scores.
constexpr uint32_t gguf_softmax = 1, gguf_sigmoid = 2;

// The first of a setting's names that config.json has; the first of all where it has none.
SettingName present(const Settings& settings, std::initializer_list<std::string_view> names,
                    std::string_view gguf) {
  for (const std::string_view name : names)
    if (!settings.gguf() && settings.has({name, ""})) return {name, gguf};
  return {*names.begin(), gguf};
}

// A number that some files give for each layer, which has to be the same for all.
Result<uint32_t> same_in_all(const Settings& settings, const SettingName& name, uint32_t most,
                             uint32_t fallback) {
  if (!settings.has(name)) return fallback;
  PUMICE_TRY(const std::vector<uint32_t> values, settings.fields().u32_array(settings.name(name), 1, most));
  if (values.empty() || std::ranges::any_of(values, [&](uint32_t each) { return each != values[0]; }))
    return settings.error(name, "expected one number for all layers; found several");
  return values[0];
}

Result<uint32_t> read_experts(const Settings& settings) {
  const SettingName name = present(
      settings, {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, "expert_count");
  if (!settings.has(name)) {
    return settings.error(name, settings.gguf() ? "expected a whole number; it is missing"
                                                : "expected it, num_local_experts, n_routed_experts or "
                                                  "moe_num_experts; found none of them");
  }
  return same_in_all(settings, name, max_experts, 0);
}

Result<ExpertRouting> read_routing(const Settings& settings, uint32_t experts,
                                   const MixtureDefaults& defaults) {
  ExpertRouting routing;
  const SettingName used =
      present(settings, {"num_experts_per_tok", "top_k_experts", "moe_k", "moe_topk", "moe_top_k"},
              "expert_used_count");
  if (!settings.has(used)) return settings.u32(used, 1, max_experts).error();
  PUMICE_TRY(routing.used, same_in_all(settings, used, max_experts, 0));
  if (routing.used > experts) {
    return settings.error(used,
                          fmt::format("expected at most the {} experts; found {}", experts, routing.used));
  }
  const uint32_t score = defaults.score == ExpertScore::sigmoid ? gguf_sigmoid : gguf_softmax;
  PUMICE_TRY(uint32_t gating, settings.u32_or({"", "expert_gating_func"}, gguf_softmax, gguf_sigmoid, score));
  routing.score = gating == gguf_sigmoid ? ExpertScore::sigmoid : ExpertScore::softmax;
  routing.biased = defaults.biased;
  PUMICE_TRY(routing.normalise,
             settings.boolean_or({"norm_topk_prob", "expert_weights_norm"},
                                 settings.gguf() ? defaults.gguf_normalise : defaults.normalise));
  const SettingName scale =
      present(settings, {"routed_scaling_factor", "route_scale"}, "expert_weights_scale");
  PUMICE_TRY(routing.scale, settings.f32_or(scale, 0.0f, 1e6f, 1.0f));
  if (routing.scale == 0) routing.scale = 1; // as llama.cpp takes it
  const SettingName groups = {"n_group", "expert_group_count"},
                    used_groups = {"topk_group", "expert_group_used_count"};
  PUMICE_TRY(routing.groups, settings.u32_or(groups, 1, max_experts, 1));
  PUMICE_TRY(routing.used_groups, settings.u32_or(used_groups, 1, max_experts, routing.groups));
  if (experts % routing.groups) {
    return settings.error(
        groups, fmt::format("expected a divisor of the {} experts; found {}", experts, routing.groups));
  }
  const uint32_t size = experts / routing.groups;
  if (routing.used_groups > routing.groups || routing.used > routing.used_groups * size) {
    return settings.error(
        used_groups, fmt::format("expected up to {} groups of {} experts each, together at least {} experts; "
                                 "found {}",
                                 routing.groups, size, routing.used, routing.used_groups));
  }
  routing.group_best = 2;
  return routing;
}

// Qwen's settings, GLM's, LFM's, ERNIE's and GGUF's.
Result<std::vector<bool>> read_sparse(const Settings& settings, uint32_t layers, uint32_t by_default) {
  const SettingName types = {"mlp_layer_types", ""};
  if (settings.has(types)) {
    PUMICE_TRY(const std::vector<std::string> list, settings.fields().string_array("mlp_layer_types"));
    const auto known = [](const std::string& type) { return type == "dense" || type == "sparse"; };
    if (list.size() != layers || !std::ranges::all_of(list, known))
      return settings.error(types, fmt::format("expected dense or sparse for each of the {} layers", layers));
    std::vector<bool> listed;
    for (const std::string& type : list) listed.push_back(type == "sparse");
    return listed;
  }
  const SettingName first =
      present(settings, {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"},
              "leading_dense_block_count");
  const SettingName interval =
      present(settings, {"decoder_sparse_step", "moe_layer_interval"}, "interleave_moe_layer_step");
  PUMICE_TRY(uint32_t dense, settings.u32_or(first, 0, limits::layers, settings.gguf() ? 0 : by_default));
  PUMICE_TRY(uint32_t step, settings.u32_or(interval, 1, limits::layers, 1));
  PUMICE_TRY(const float last, settings.f32_or({"moe_layer_end_index", ""}, -1, limits::layers, -1));
  if (last >= 0 && last + 1 < static_cast<float>(layers))
    return settings.error({"moe_layer_end_index", ""},
                          "dense layers after the sparse ones are not supported");
  std::vector<uint32_t> only;
  if (!settings.gguf()) {
    PUMICE_TRY(only, settings.fields().u32_array_or_empty("mlp_only_layers", 0, limits::layers));
  }
  std::vector<bool> sparse(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    sparse[layer] = layer >= dense && (layer + 1) % step == 0 && std::ranges::find(only, layer) == only.end();
  }
  return sparse;
}

// Adds one matrix of each expert, and its biases.
class ExpertMatrices {
public:
  ExpertMatrices(DecoderBuilder& builder, const MixtureConfig& config, const MixtureNames& names)
      : builder_(builder), config_(config), names_(names) {}

  // `part`: 0 of the gate, 1 of the up; none: the tensor has nothing else.
  std::vector<WeightId> add(const TensorName& name, uint32_t rows, uint32_t columns,
                            std::optional<uint32_t> part = {}) {
    std::vector<WeightId> ids;
    for (const WeightView& view : views(name, rows, columns, part))
      ids.push_back(builder_.weight(view, mixture_component));
    if (config_.biases) {
      const WeightView bias = builder_.stacked_expert_biases(is_merged(part) ? merged : name, config_.experts,
                                                             rows, bias_rows(rows, part));
      biases.push_back(builder_.weight(bias, mixture_component));
    }
    return ids;
  }

  std::vector<WeightId> biases;

private:
  // What llama.cpp's own conversion writes of some models, or if it is asked to: the gate's rows of an
  // expert, then the up's.
  static constexpr TensorName merged = {"", "ffn_gate_up_exps"};
  bool is_merged(std::optional<uint32_t> part) const {
    return part && builder_.gguf() && builder_.has(merged, ".weight");
  }
  static ExpertRows merged_rows(uint32_t rows, uint32_t part) {
    return {2 * rows, part * rows, rows, 2 * rows};
  }

  std::vector<WeightView> views(const TensorName& name, uint32_t rows, uint32_t columns,
                                std::optional<uint32_t> part) {
    if (is_merged(part)) {
      return builder_.merged_gguf_experts(merged, config_.experts, rows, columns, merged_rows(rows, *part));
    }
    if (names_.stack == ExpertStack::none || (names_.stack == ExpertStack::rows && builder_.gguf()))
      return builder_.expert_tensors(name, config_.experts, rows, columns);
    if (names_.stack == ExpertStack::rows) {
      const ExpertRows all = {.all = part ? rows : columns, .transposed = !part};
      return builder_.head_tensors(name, config_.experts, rows, columns, all, mixture_component, "");
    }
    return builder_.stacked_expert_tensors(name, config_.experts, rows, columns, rows_of(rows, part));
  }

  ExpertRows rows_of(uint32_t rows, std::optional<uint32_t> part) const {
    const bool transposed = names_.stack != ExpertStack::gate_first_as_is;
    if (!part) return {rows, 0, rows, rows, transposed};
    if (names_.stack == ExpertStack::alternating) return {2 * rows, *part, 1, 2, true};
    return {2 * rows, *part * rows, rows, 2 * rows, transposed};
  }

  ExpertRows bias_rows(uint32_t rows, std::optional<uint32_t> part) const {
    if (!builder_.gguf()) return rows_of(rows, part);
    if (is_merged(part)) return merged_rows(rows, *part);
    return {rows, 0, config_.experts * rows, config_.experts * rows};
  }

  DecoderBuilder& builder_;
  const MixtureConfig& config_;
  const MixtureNames& names_;
};

TensorId shared_expert(DecoderBuilder& builder, TensorId x, const MixtureConfig& config,
                       const MixtureNames& names) {
  const GatedNames& shared = names.shared;
  const TensorId y = config.ungated
                         ? builder.squared_feed_forward(x, shared.up, shared.down, config.shared_feed_forward)
                         : builder.gated_feed_forward(x, shared, config.shared_feed_forward);
  if (!config.shared_gate) return y;
  // GGUF has the only row as a vector.
  const uint32_t hidden = builder.config().hidden;
  const WeightView row = builder.row_tensor(names.shared_gate, hidden, mixture_component);
  const TensorId gate =
      builder.project(x, builder.node_name(names.shared_gate), row, nullptr, mixture_component);
  return gate_rows(builder.graph(), builder.prefix() + "shared_expert", y, gate);
}

} // namespace

uint32_t MixtureConfig::dense_layers() const {
  return static_cast<uint32_t>(std::ranges::find(sparse, true) - sparse.begin());
}

Result<MixtureConfig> read_mixture(const Settings& settings, const DecoderConfig& config,
                                   const MixtureDefaults& defaults) {
  MixtureConfig mixture;
  PUMICE_TRY(mixture.experts, read_experts(settings));
  PUMICE_TRY(mixture.feed_forward,
             same_in_all(settings, {"moe_intermediate_size", "expert_feed_forward_length"},
                         4 * limits::columns, config.feed_forward));
  PUMICE_TRY(mixture.routing, read_routing(settings, mixture.experts, defaults));
  PUMICE_TRY(mixture.sparse, read_sparse(settings, config.layers, defaults.dense));
  return mixture;
}

Result<uint32_t> read_shared_experts(const Settings& settings, uint32_t feed_forward, uint32_t fallback) {
  constexpr uint32_t most = 64;
  const SettingName name = present(
      settings, {"n_shared_experts", "moe_num_shared_experts", "num_shared_expert", "num_shared_experts"},
      "expert_shared_count");
  PUMICE_TRY(const uint32_t count, name.hugging_face == "num_shared_expert"
                                       ? same_in_all(settings, name, most, fallback)
                                       : settings.u32_or(name, 0, most, fallback));
  return count * feed_forward;
}

nlohmann::json gguf_mixture(const MixtureConfig& mixture) {
  const ExpertRouting& routing = mixture.routing;
  nlohmann::json metadata = {
      {"expert_count", mixture.experts},
      {"expert_used_count", routing.used},
      {"expert_feed_forward_length", mixture.feed_forward},
      {"expert_gating_func", routing.score == ExpertScore::sigmoid ? gguf_sigmoid : gguf_softmax},
      {"expert_weights_norm", routing.normalise},
      {"expert_weights_scale", routing.scale},
  };
  if (mixture.shared_feed_forward) {
    metadata["expert_shared_feed_forward_length"] = mixture.shared_feed_forward;
    metadata["expert_shared_count"] = std::max(mixture.shared_feed_forward / mixture.feed_forward, 1u);
  }
  if (routing.groups > 1) {
    metadata["expert_group_count"] = routing.groups;
    metadata["expert_group_used_count"] = routing.used_groups;
  }
  if (mixture.latent) metadata["moe_latent_size"] = mixture.latent;
  if (mixture.dense_layers()) metadata["leading_dense_block_count"] = mixture.dense_layers();
  return metadata;
}

std::vector<Hyperparameter> hyperparameters(const MixtureConfig& mixture) {
  std::vector<Hyperparameter> all = {
      {"experts", fmt::format("{}, of which {} for a token", mixture.experts, mixture.routing.used)},
      {"expert feed_forward", fmt::format("{}", mixture.feed_forward)},
      {"routing", mixture.routing.describe()}};
  if (mixture.shared_feed_forward) {
    all.push_back({"shared feed_forward",
                   fmt::format("{}{}", mixture.shared_feed_forward, mixture.shared_gate ? ", gated" : "")});
  }
  if (mixture.limit != 0) all.push_back({"clamped gate", fmt::format("{:g}", mixture.limit)});
  const auto sparse = std::ranges::count(mixture.sparse, true);
  if (static_cast<size_t>(sparse) < mixture.sparse.size())
    all.push_back({"sparse", fmt::format("{} of {} layers", sparse, mixture.sparse.size())});
  return all;
}

TensorId mixture(DecoderBuilder& builder, TensorId x, const MixtureConfig& config,
                 const MixtureNames& names) {
  const TensorId router = builder.project(x, names.router, config.experts, config.biases, mixture_component);
  return mixture(builder, x, router, config, names);
}

TensorId mixture(DecoderBuilder& builder, TensorId x, TensorId router_logits, const MixtureConfig& config,
                 const MixtureNames& names) {
  const uint32_t hidden = builder.config().hidden, feed_forward = config.feed_forward;
  const uint32_t columns = config.latent ? config.latent : hidden;
  ExpertWeights weights;
  ExpertMatrices matrices(builder, config, names);
  if (!config.ungated) weights.gate = matrices.add(names.gate, feed_forward, columns, 0);
  weights.up = config.ungated ? matrices.add(names.up, feed_forward, columns)
                              : matrices.add(names.up, feed_forward, columns, 1);
  weights.down = matrices.add(names.down, columns, feed_forward);
  weights.biases = std::move(matrices.biases);
  if (config.routing.biased) {
    const WeightView bias =
        names.routing_bias_row ? builder.row_as_vector(names.routing_bias, config.experts, mixture_component)
                               : builder.tensor(names.routing_bias, "", config.experts, 0, mixture_component);
    weights.routing_bias = builder.weight(bias, mixture_component);
  }
  if (config.routing.scaled) {
    const WeightView scales = builder.tensor(names.scales, "", config.experts, 0, mixture_component);
    weights.routing_scales = builder.weight(scales, mixture_component);
  }
  Experts operation;
  operation.count = config.experts;
  operation.routing = config.routing;
  operation.activation = {builder.config().activation, config.limit};
  operation.scaled_inputs = config.scaled_inputs;
  std::optional<TensorId> shared;
  if (config.shared_feed_forward) shared = shared_expert(builder, x, config, names);
  const std::string name = builder.node_name(names.result);
  if (!config.latent) return experts(builder.graph(), name, x, router_logits, weights, operation, shared);
  const TensorId read = builder.project(x, names.to_latent, columns, false, mixture_component);
  const TensorId given = experts(builder.graph(), name, read, router_logits, weights, operation);
  const TensorId y = builder.project(given, names.from_latent, hidden, false, mixture_component);
  return shared ? add_every_row(builder.graph(), builder.prefix() + "experts_and_shared", y, *shared) : y;
}

} // namespace pumice
