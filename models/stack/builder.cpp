#include "models/stack/builder.h"

#include <array>
#include <cmath>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/pooling/pooling.h"

namespace pumice {

StackBuilder::StackBuilder(const StackConfig& config, bool gguf, const ModelFile* file)
    : ModelBuilder(gguf, file, config.root, config.bare), config_(config) {}

TensorId StackBuilder::rms_norm(TensorId x, const TensorName& name, float weight_offset) {
  return ModelBuilder::rms_norm(x, name, config_.norm_eps, weight_offset);
}

TensorId StackBuilder::layer_norm(TensorId x, const TensorName& name, bool bias) {
  if (!bias) return ModelBuilder::layer_norm(x, name, config_.norm_eps, ".weight", "");
  if (!config_.gamma_and_beta) return ModelBuilder::layer_norm(x, name, config_.norm_eps);
  return ModelBuilder::layer_norm(x, name, config_.norm_eps, ".gamma", ".beta");
}

TensorId StackBuilder::embed(const TensorName& name, float scale, float gguf_scale) {
  embedding_table_ = tensor(name, ".weight", config_.vocabulary, config_.embedding_columns(), "embedding",
                            {0, 0, 0, gguf_scale});
  return embedding(graph(), "embedding", weight(embedding_table_, "embedding"), scale);
}

TensorId StackBuilder::learned_positions(TensorId x, const TensorName& name, uint32_t offset) {
  const uint64_t columns = config_.embedding_columns();
  const uint64_t first = gguf() ? 0 : offset; // GGUF's table begins with the first position
  const TensorName own = {name.hugging_face, offset > 0 && !gguf() ? std::string_view() : name.gguf};
  const WeightView table = tensor(own, ".weight", config_.context + first, columns, "embedding");
  if (offset > 0)
    add_gguf_tensor(name, ".weight", {config_.context, columns}, {table.slice(offset, config_.context)});
  const TensorId positions = position_embedding(graph(), "position_embedding", weight(table, "embedding"),
                                                static_cast<uint32_t>(first));
  return add(x, positions, "with_positions");
}

TensorId StackBuilder::project_input(TensorId x, const AttentionNames& names, Projection which,
                                     uint32_t rows) {
  const std::string_view component = "attention";
  const std::array all = {names.query, names.key, names.value};
  const TensorName& own = all[static_cast<uint32_t>(which)];
  if (names.fused.hugging_face.empty() || (gguf() && names.fused.gguf.empty())) {
    const bool bias = names.input_bias && (which != Projection::key || names.key_bias);
    if (!names.neighbouring_in_gguf || which == Projection::value)
      return project(x, own, rows, bias, component);
    const GgufTransform pairs = {rows / config_.head_dim};
    const WeightView matrix = tensor(own, ".weight", rows, graph().tensor(x).columns, component, pairs);
    if (!bias) return project(x, node_name(own), matrix, nullptr, component);
    const WeightView added = tensor(own, ".bias", rows, 0, component, pairs);
    return project(x, node_name(own), matrix, &added, component);
  }
  const std::array<uint64_t, 3> counts = {rows, rows, rows};
  const std::array suffixes = {"_query", "_key", "_value"};
  const uint32_t part = static_cast<uint32_t>(which);
  const WeightView matrix =
      fused_tensor(names.fused, names.fused_weight, counts, graph().tensor(x).columns, 1, component)[part];
  add_gguf_tensor(own, ".weight", {rows, matrix.columns}, {matrix});
  std::optional<WeightView> bias;
  if (names.input_bias) {
    bias = fused_tensor(names.fused, names.fused_bias, counts, 0, 1, component)[part];
    add_gguf_tensor(own, ".bias", {rows}, {*bias});
  }
  return project(x, node_name(names.fused) + suffixes[part], matrix, bias ? &*bias : nullptr, component);
}

TensorId StackBuilder::attention(std::string_view name, TensorId query, uint32_t cache, AttentionMask mask,
                                 uint32_t window, const AttentionStyle& style,
                                 std::optional<TensorId> bias_scores) {
  const uint32_t head_dim = graph().tensor(query).columns / config_.heads;
  Attention operation;
  operation.layer = cache;
  operation.heads = config_.heads;
  operation.scale =
      style.score_scale > 0 ? style.score_scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  operation.window = window;
  operation.soft_cap = style.soft_cap;
  operation.mask = mask;
  operation.chunked = style.chunked;
  operation.whole_pictures = style.whole_pictures && mask == AttentionMask::causal;
  operation.patch_windows = style.patch_windows;
  operation.run = style.run;
  operation.joined = style.joined;
  operation.sinks = style.sinks.has_value();
  operation.chosen = style.chosen ? style.most_chosen : 0;
  operation.bias = style.relative_bias;
  return pumice::attention(graph(), prefix() + std::string(name), query, operation,
                           style.sinks ? style.sinks : style.relative_bias_table,
                           style.chosen ? style.chosen : bias_scores);
}

TensorId StackBuilder::attend_memory(uint32_t layer, TensorId query, const AttentionStyle& style) {
  cross_attentions_.push_back(
      attention("cross_attention", query, config_.layers + layer, AttentionMask::cross, 0, style));
  return cross_attentions_.back();
}

TensorId StackBuilder::self_attention(uint32_t layer, TensorId x, const AttentionNames& names,
                                      const AttentionStyle& style) {
  const auto normed = [&](TensorId projected, const TensorName& name) {
    return name.hugging_face.empty() ? projected : layer_norm(projected, name);
  };
  AttentionInputs inputs;
  inputs.query = normed(project_input(x, names, Projection::query, config_.query_rows()), names.query_norm);
  inputs.key = normed(project_input(x, names, Projection::key, config_.key_rows()), names.key_norm);
  inputs.value = project_input(x, names, Projection::value, config_.key_rows());
  const TensorId y = attend(layer, inputs, style);
  return project(y, names.output, config_.hidden, names.output_bias, "attention");
}

// The relative bias is dropped, because keys of another sequence have no distance from the query.
TensorId StackBuilder::cross_attention(uint32_t layer, TensorId x, const AttentionNames& names,
                                       AttentionStyle style) {
  style.relative_bias = {};
  style.relative_bias_table.reset();
  const TensorId query = project_input(x, names, Projection::query, config_.query_rows());
  return project(attend_memory(layer, query, style), names.output, config_.hidden, names.output_bias,
                 "attention");
}

TensorId StackBuilder::feed_forward(TensorId x, const LayerNames& names) {
  const std::string_view component = "feed-forward";
  const bool bias = names.feed_forward_bias && names.up_bias;
  TensorId y = 0;
  if (names.fused_gate) {
    const std::array<uint64_t, 2> counts = {config_.feed_forward, config_.feed_forward};
    const uint32_t columns = graph().tensor(x).columns;
    const TensorName whole = {names.up.hugging_face, names.gate ? std::string_view() : names.up.gguf};
    const std::vector<WeightView> matrices = fused_tensor(whole, ".weight", counts, columns, 1, component);
    std::vector<WeightView> biases;
    if (bias) biases = fused_tensor(whole, ".bias", counts, 0, 1, component);
    const auto half = [&](const char* suffix, size_t part) {
      return project(x, node_name(names.up) + suffix, matrices[part], bias ? &biases[part] : nullptr,
                     component);
    };
    const TensorId gated = half(".gate", names.gate_last), up = half(".up", !names.gate_last);
    for (const bool of_up : {false, true}) {
      if (!names.gate) break;
      const TensorName& own = of_up ? names.up : *names.gate;
      const size_t part = of_up != names.gate_last;
      add_gguf_tensor(own, ".weight", {config_.feed_forward, columns}, {matrices[part]});
      if (bias) add_gguf_tensor(own, ".bias", {config_.feed_forward}, {biases[part]});
    }
    y = gate(graph(), prefix() + "gated", gated, up, config_.activation);
  } else if (names.gate) {
    const TensorId gated = project(x, *names.gate, config_.feed_forward, bias, component);
    const TensorId up = project(x, names.up, config_.feed_forward, bias, component);
    y = gate(graph(), prefix() + "gated", gated, up, config_.activation);
  } else {
    y = project(x, names.up, config_.feed_forward, bias, component);
    y = activate(graph(), prefix() + "activated", y, config_.activation);
  }
  return project(y, names.down, config_.hidden, names.feed_forward_bias, component);
}

TensorId StackBuilder::sublayer(TensorId x, const LayerNames& names, const TensorName* norm,
                                std::string_view residual, const Sublayer& function) {
  const auto normalize = [&](TensorId y) {
    if (!norm) return y;
    return names.norm == NormKind::rms ? rms_norm(y, *norm) : layer_norm(y, *norm, names.norm_bias);
  };
  if (names.norm_first) return add(function(normalize(x)), x, residual);
  return normalize(add(function(x), x, residual));
}

TensorId StackBuilder::scaled(TensorId y, const TensorName& name, std::string_view suffix) {
  if (name.hugging_face.empty()) return y;
  const WeightView factors = tensor(name, suffix, graph().tensor(y).columns, 0, "norms");
  return scale_columns(graph(), node_name(name), y, weight(factors, "norms"));
}

void StackBuilder::add_stack_tensors(uint32_t ReadableExtent::*positions) {
  readable_.add_each("hidden_states.", hidden_states_);
  const auto add_weights = [&](const char* prefix, const std::vector<TensorId>& attentions,
                               uint32_t ReadableExtent::*length) {
    readable_.add_each(prefix, attentions.size(),
                       [attentions, length](Graph& graph, const std::string& name, size_t index,
                                            const ReadableExtent& extent) {
                         return attention_weights(graph, name, attentions[index], extent.*length);
                       });
  };
  add_weights("attentions.", attentions_, positions);
  add_weights("cross_attentions.", cross_attentions_, &ReadableExtent::input_context);
}

void StackBuilder::add_pooled_tensors(TensorId last) {
  readable_.add("last_hidden_state", last);
  using Pool = TensorId (*)(Graph&, std::string, TensorId);
  const std::pair<std::string, Pool> all[] = {{"mean", mean_rows}, {"cls", select_rows}, {"last", last_row}};
  for (const auto& [name, pool] : all) {
    const Pool function = pool;
    readable_.add("pooled_" + name, [=](Graph& to, const std::string& own, const ReadableExtent&) {
      return function(to, own, last);
    });
    const std::string pooled = name + "_rows";
    readable_.add("sentence_embedding_" + name,
                  [=](Graph& to, const std::string& own, const ReadableExtent&) {
                    return unit_length(to, own, function(to, pooled, last));
                  });
  }
}

TensorId StackBuilder::run_layers(TensorId x, const LayerNames& names, const AttentionStyle& style) {
  for (uint32_t index = 0; index < config_.layers; ++index) {
    hidden_state(x);
    layer_input(x);
    layer(index / names.layers_sharing, names.hugging_face, names.gguf);
    const bool normed = names.first_is_normed && index == 0;
    AttentionStyle own = style;
    if (names.relative_bias) {
      const WeightView table =
          tensor(*names.relative_bias, "", style.relative_bias.buckets, config_.heads, "attention");
      own.relative_bias_table = weight(table, "attention");
    }
    const TensorId read = x;
    x = sublayer(x, names, normed ? nullptr : &names.attention_norm, "attention_residual", [&](TensorId y) {
      return scaled(self_attention(index, y, names.attention, own), names.attention_scale,
                    names.scale_suffix);
    });
    if (!names.attention_norm_again.hugging_face.empty())
      x = layer_norm(add(x, read, "attention_residual_again"), names.attention_norm_again);
    if (names.cross_attention) {
      x = sublayer(x, names, &names.cross_attention_norm, "cross_attention_residual",
                   [&](TensorId y) { return cross_attention(index, y, *names.cross_attention, style); });
    }
    x = sublayer(x, names, &names.feed_forward_norm, "residual", [&](TensorId y) {
      const std::optional<TensorId> fed =
          names.own_feed_forward ? names.own_feed_forward(index, y) : std::nullopt;
      return scaled(fed ? *fed : feed_forward(y, names), names.feed_forward_scale, names.scale_suffix);
    });
    if (names.after) x = names.after(index, x);
  }
  return x;
}

} // namespace pumice
