#include "models/decoder/builder.h"

#include <algorithm>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/matmul/linear.h"
#include "kernel/pooling/pooling.h"
#include "kernel/scoring/scoring.h"
#include "kernel/search/search.h"

namespace pumice {

DecoderBuilder::DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file, bool reads)
    : StackBuilder(config, gguf, file), config_(config), reads_(reads) {}

void DecoderBuilder::layer(uint32_t layer, std::string_view hugging_face) {
  layer_ = layer;
  ModelBuilder::layer(layer, hugging_face);
}

DecoderGraph DecoderBuilder::take() {
  readable_.add("logits", logits_);
  readable_.add("log_likelihoods",
                [logits = logits_](Graph& to, const std::string& name, const ReadableExtent&) {
                  return log_likelihood(to, name, logits);
                });
  // Not together with the logits, which it overwrites.
  readable_.add("continuations",
                [logits = logits_](Graph& to, const std::string& name, const ReadableExtent&) {
                  return search(to, name, logits, SEARCH_CANDIDATES);
                });
  add_stack_tensors(&ReadableExtent::context);
  std::vector<MatrixInput> inputs = add_matrix_inputs();
  return {std::move(graph()),       std::move(readable_),     logits_,
          std::move(layer_inputs_), std::move(other_forms()), std::move(inputs)};
}

std::vector<MatrixInput> DecoderBuilder::add_matrix_inputs() {
  std::vector<MatrixInput> inputs;
  std::vector<TensorId> tensors; // by number
  for (const Node& node : graph().nodes()) {
    const auto* product = dynamic_cast<const Linear*>(node.operation.get());
    if (!product || graph().tensor(node.inputs[0]).rows != RowKind::tokens) continue;
    auto known = std::ranges::find(tensors, node.inputs[0]);
    if (known == tensors.end()) known = tensors.insert(known, node.inputs[0]);
    for (uint32_t i = 0; i < product->matrices; ++i) {
      const WeightView& view = graph().weight(node.weights[i]).view;
      if (!view.tensor) continue;
      inputs.push_back({view.tensor->name, static_cast<size_t>(known - tensors.begin())});
    }
  }
  readable_.add_each(MatrixInput::prefix, std::move(tensors));
  return inputs;
}

EncoderGraph DecoderBuilder::take_reader() {
  add_pooled_tensors(last_hidden_state_);
  add_stack_tensors(&ReadableExtent::input_context);
  return {std::move(graph()), std::move(readable_)};
}

TensorId DecoderBuilder::norm(TensorId x, const TensorName& name) {
  const NormStyle& style = config_.norm;
  if (style.kind == NormKind::rms) return rms_norm(x, name, style.weight_offset);
  if (!style.weight) {
    const WeightView ones = derived_tensor("ones", {graph().tensor(x).columns},
                                           [](std::span<float> values) { std::ranges::fill(values, 1.0f); });
    return pumice::layer_norm(graph(), node_name(name), x, weight(ones, "norms"), {}, config_.norm_eps);
  }
  return ModelBuilder::layer_norm(x, name, config_.norm_eps, ".weight", style.bias ? ".bias" : "",
                                  style.weight_offset);
}

TensorId DecoderBuilder::head_layer_norm(TensorId x, const TensorName& name) {
  const uint32_t head_dim = sizes().head_dim, heads = graph().tensor(x).columns / head_dim;
  const auto filled = [&](const char* what, float value) {
    const auto fill = [value](std::span<float> values) { std::ranges::fill(values, value); };
    return weight(derived_tensor(what, {head_dim}, fill), "norms");
  };
  const TensorId y = grouped_layer_norm(graph(), node_name(name) + ".unweighted", x, filled("head_ones", 1),
                                        filled("head_zeros", 0), heads, config_.norm_eps);
  const WeightView weights = tensor(name, ".weight", heads, head_dim, "norms");
  return scale_columns(graph(), node_name(name), y, weight(weights, "norms"));
}

AttentionInputs DecoderBuilder::query_key_value(TensorId x, const AttentionStyle& style) {
  const bool bias = style.input_bias;
  const uint32_t columns = graph().tensor(x).columns;
  const auto one = [&](const TensorName& name, uint32_t rows, const GgufTransform& transform) {
    const WeightView matrix = tensor(name, ".weight", rows, columns, "attention", transform);
    if (!bias) return project(x, node_name(name), matrix, nullptr, "attention");
    const WeightView added = tensor(name, ".bias", rows, 0, "attention", transform);
    return project(x, node_name(name), matrix, &added, "attention");
  };
  const bool permuted = config_.neighbouring_in_gguf;
  const uint32_t rotary_dim = permuted ? config_.rotary.dim : 0;
  AttentionInputs inputs;
  inputs.query =
      one({"self_attn.q_proj", "attn_q"}, query_rows(),
          {permuted ? config_.heads : 0, rotary_dim, 0, style.head_norms ? 1 : config_.gguf_query_scale});
  if (shares_cache()) return inputs;
  inputs.key = one({"self_attn.k_proj", "attn_k"}, key_rows(), {permuted ? sizes().kv_heads : 0, rotary_dim});
  inputs.value = style.keys_as_values ? inputs.key : one({"self_attn.v_proj", "attn_v"}, key_rows(), {});
  return inputs;
}

AttentionInputs DecoderBuilder::fused_query_key_value(TensorId x, const TensorName& name, uint64_t groups,
                                                      bool bias) {
  const uint64_t counts[] = {query_rows(), key_rows(), key_rows()};
  const auto matrices = fused_tensor(name, ".weight", counts, graph().tensor(x).columns, groups, "attention");
  std::vector<WeightView> biases;
  if (bias) biases = fused_tensor(name, ".bias", counts, 0, groups, "attention");
  constexpr std::string_view apart[] = {"attn_q", "attn_k", "attn_v"};
  const uint32_t rotated[] = {config_.heads, sizes().kv_heads, 0};
  const auto one = [&](size_t index, const char* suffix) {
    if (name.gguf.empty()) {
      GgufTransform transform;
      if (config_.neighbouring_in_gguf) transform = {rotated[index], rotated[index] ? config_.rotary.dim : 0};
      const TensorName own = {name.hugging_face, apart[index]};
      add_gguf_tensor(own, ".weight", {counts[index], graph().tensor(x).columns}, {matrices[index]},
                      transform);
      if (bias) add_gguf_tensor(own, ".bias", {counts[index]}, {biases[index]}, transform);
    }
    return project(x, node_name(name) + suffix, matrices[index], bias ? &biases[index] : nullptr,
                   "attention");
  };
  AttentionInputs inputs;
  inputs.query = one(0, ".query");
  inputs.key = one(1, ".key");
  inputs.value = one(2, ".value");
  return inputs;
}

TensorId DecoderBuilder::rotate_and_store(uint32_t layer, const AttentionInputs& inputs,
                                          const AttentionStyle& style) {
  const LayerSizes sizes = config_.sizes_of(layer);
  const bool shares = shares_cache();
  RotaryStore store;
  store.layer = cache_of(layer);
  store.heads = config_.heads;
  store.kv_heads = sizes.kv_heads;
  store.head_dim = sizes.head_dim;
  store.rotary = style.rotary ? *style.rotary : config_.rotary;
  if (reads_) store.rotary.places = PlaceKind::none; // it reads no pictures
  store.norm_eps = config_.norm_eps;
  store.value_norm = style.value_norm && !shares;
  const RotaryConfig& rotary = store.rotary;
  const bool rotates = rotary.pairs != RotaryPairs::none || rotary.query_growth != 0;
  if (!rotates && !style.head_norms && !store.value_norm) {
    if (!shares) cache_store(graph(), prefix() + "stored", inputs.key, inputs.value, store.layer);
    return inputs.query;
  }
  std::vector<WeightId> norms;
  if (style.head_norms) {
    store.query_norm = true;
    store.key_norm = !shares;
    store.norm_after = style.head_norms_after;
    store.unit_norms = style.unit_head_norms;
    store.norm_offset = gguf() ? 0 : style.head_norm_offset;
  }
  if (store.query_norm && !store.unit_norms)
    norms.push_back(
        norm_weight(style.query_norm, sizes.head_dim, style.head_norm_offset, config_.gguf_query_scale));
  if (store.key_norm && !store.unit_norms)
    norms.push_back(norm_weight(style.key_norm, sizes.head_dim, style.head_norm_offset));
  const std::string name = prefix() + "rotated_query";
  if (shares) return rotate_queries(graph(), name, inputs.query, std::move(store), std::move(norms));
  return rotary_store(graph(), name, inputs.query, inputs.key, inputs.value, std::move(store),
                      std::move(norms));
}

TensorId DecoderBuilder::attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) {
  const TensorId query = rotate_and_store(layer, inputs, style);
  attentions_.push_back(
      attention("attention", query, cache_of(layer), mask(), config_.windows[layer], style));
  return attentions_.back();
}

TensorId DecoderBuilder::attend_and_project(uint32_t layer, const AttentionInputs& inputs,
                                            const AttentionStyle& style) {
  return project(attend(layer, inputs, style), style.output, config_.hidden, style.output_bias, "attention");
}

TensorId DecoderBuilder::gated_feed_forward(TensorId x, const GatedNames& names, uint32_t rows, bool bias) {
  const std::string_view component = "feed-forward";
  const TensorId gated = project(x, names.gate, rows, bias, component);
  const TensorId up = project(x, names.up, rows, bias, component);
  const TensorId y = gate(graph(), prefix() + std::string(names.result), gated, up, config_.activation);
  return project(y, names.down, config_.hidden, bias, component);
}

TensorId DecoderBuilder::fused_gated_feed_forward(TensorId x, const TensorName& name,
                                                  const TensorName& down) {
  const std::string_view component = "feed-forward";
  const uint64_t counts[] = {sizes().feed_forward, sizes().feed_forward};
  const auto slices = fused_tensor(name, ".weight", counts, config_.hidden, 1, component);
  const std::string node = node_name(name);
  const TensorId gated = project(x, node + ".gate", slices[0], nullptr, component);
  const TensorId up = project(x, node + ".up", slices[1], nullptr, component);
  const TensorId y = gate(graph(), node + ".gated", gated, up, config_.activation);
  return project(y, down, config_.hidden, false, component);
}

TensorId DecoderBuilder::squared_feed_forward(TensorId x, const TensorName& up, const TensorName& down,
                                              uint32_t rows, bool bias) {
  x = project(x, up, rows, bias, "feed-forward");
  // relu(x) * x is the square of relu(x).
  const TensorId y = gate(graph(), node_name(up) + ".squared", x, x, Activation::relu);
  return project(y, down, config_.hidden, bias, "feed-forward");
}

TensorId DecoderBuilder::plain_feed_forward(TensorId x, const TensorName& up, const TensorName& down,
                                            bool bias) {
  x = project(x, up, sizes().feed_forward, bias, "feed-forward");
  x = activate(graph(), prefix() + "activated", x, config_.activation);
  return project(x, down, config_.hidden, bias, "feed-forward");
}

TensorId DecoderBuilder::norm_if_named(TensorId x, const TensorName& name) {
  return name.hugging_face.empty() ? x : norm(x, name);
}

TensorId DecoderBuilder::residual(TensorId x, TensorId y, const TensorName& result_norm,
                                  std::string_view name) {
  y = norm_if_named(y, result_norm);
  if (config_.residual_scale != 1) {
    y = scale(graph(), prefix() + std::string(name) + "_scaled", y, config_.residual_scale);
  }
  return add(y, x, name);
}

TensorId DecoderBuilder::block(TensorId x, const BlockNorms& norms, const Sublayer& attention,
                               const Sublayer& feed_forward) {
  const TensorId attended = attention(norm_if_named(x, norms.attention_input));
  x = residual(x, attended, norms.attention_result, "attention_residual");
  const TensorId fed = feed_forward(norm_if_named(x, norms.feed_forward_input));
  return residual(x, fed, norms.feed_forward_result, "residual");
}

TensorId DecoderBuilder::parallel_block(TensorId x, const BlockNorms& norms, const Sublayer& attention,
                                        const Sublayer& feed_forward) {
  const TensorId input = norm_if_named(x, norms.attention_input);
  const TensorName& second = norms.feed_forward_input;
  const TensorId attended = residual(x, attention(input), norms.attention_result, "attention_residual");
  const TensorId fed = feed_forward(second.hugging_face.empty() ? input : norm(x, second));
  return residual(attended, fed, norms.feed_forward_result, "residual");
}

// The head's product is made only where somebody reads it: a text's vector does not need it.
void DecoderBuilder::finish_reader(TensorId x, const TensorName& head, const WeightView* bias) {
  last_hidden_state_ = x;
  prefix("", "");
  if (!config_.labels.empty()) {
    x = last_row(graph(), "last_row", x);
    readable_.add("logits", project(x, {"score", "cls.output"}, static_cast<uint32_t>(config_.labels.size()),
                                    false, "head"));
    return;
  }
  if (config_.both_ways || (!config_.tied_head && !has(head, ".weight"))) return;
  WeightView matrix = embedding_table_;
  if (!config_.tied_head) matrix = tensor(head, ".weight", config_.vocabulary, config_.hidden, "head");
  std::optional<WeightView> added;
  if (bias) added = *bias;
  readable_.add("logits", [=, scaling = config_.logit_scale, cap = config_.logit_soft_cap](
                              Graph& to, const std::string& name, const ReadableExtent&) {
    TensorId y = last_row(to, "last_row", x);
    std::optional<WeightId> added_id;
    if (added) added_id = to.weight(*added, "head");
    y = linear(to, name, y, to.weight(matrix, "head"), added_id);
    if (scaling != 1) y = scale(to, "scaled_logits", y, scaling);
    return cap > 0 ? soft_cap(to, "capped_logits", y, cap) : y;
  });
}

void DecoderBuilder::finish(TensorId x, const TensorName& head, const WeightView* bias) {
  if (reads_) return finish_reader(x, head, bias);
  prefix("", "");
  give_logits(x, head, bias);
}

void DecoderBuilder::give_logits(TensorId x, const TensorName& head, const WeightView* bias) {
  x = select_rows(graph(), "output_rows", x);
  WeightView matrix = embedding_table_;
  const GgufTransform folded = {0, 0, 0, config_.gguf_folds_factors ? config_.logit_scale : 1};
  if (!config_.tied_head) {
    matrix = tensor(head, ".weight", config_.vocabulary, graph().tensor(x).columns, "head", folded);
  } else if (config_.gguf_needs_head) {
    add_gguf_tensor(head, ".weight", {config_.vocabulary, config_.hidden}, {matrix}, folded);
  }
  x = project(x, "logits", matrix, bias, "head");
  if (config_.logit_scale != 1) x = scale(graph(), "scaled_logits", x, config_.logit_scale);
  if (config_.logit_soft_cap > 0) x = soft_cap(graph(), "capped_logits", x, config_.logit_soft_cap);
  logits_ = x;
}

void DecoderBuilder::decode(const Block& block, const DecoderNames& names) {
  const float folded = config_.gguf_folds_factors ? config_.embedding_scale : 1;
  TensorId x = embed(names.embedding, config_.embedding_scale, folded);
  x = with_pictures(x);
  if (!names.positions.hugging_face.empty()) x = learned_positions(x, names.positions, names.first_position);
  x = norm_if_named(x, names.embedding_norm);
  decode_embedded(x, block, names);
}

TensorId DecoderBuilder::with_pictures(TensorId x) {
  if (!config_.pictures || reads_) return x;
  const uint32_t columns = config_.hidden * (1 + config_.pictures->deep_layers);
  given_ = graph().input(PictureTokens::features, RowKind::tokens, columns);
  return prompt_rows(graph(), "with_pictures", x, *given_);
}

void DecoderBuilder::decode_embedded(TensorId x, const Block& block, const DecoderNames& names) {
  for (uint32_t index = 0; index < config_.layers; ++index) {
    hidden_state(x);
    layer_input(x);
    layer(index, names.layers);
    x = block(index, x);
    if (given_ && index < config_.pictures->deep_layers)
      x = added_prompt_rows(graph(), prefix() + "deep_rows", x, *given_, (index + 1) * config_.hidden);
  }
  prefix("", "");
  x = norm(x, names.norm);
  hidden_state(x);
  std::optional<WeightView> bias;
  if (names.head_bias) bias = tensor(names.head, ".bias", config_.vocabulary, 0, "head");
  finish(x, names.head, bias ? &*bias : nullptr);
}

} // namespace pumice
