#include "models/encoder/builder.h"

#include <algorithm>

#include "kernel/embedding/embedding.h"
#include "kernel/position/position.h"

namespace pumice {

EncoderBuilder::EncoderBuilder(const EncoderConfig& config, bool gguf, const ModelFile* file)
    : StackBuilder(config, gguf, file), config_(config) {}

TensorId EncoderBuilder::attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) {
  const uint32_t window = config_.windows.empty() ? 0 : config_.windows[layer];
  const TensorId query = rotate_and_store(inputs, style, window > 0);
  AttentionStyle own = style;
  own.patch_windows = layer < config_.patch_windows.size() && config_.patch_windows[layer];
  if (layer >= config_.first_joined) own.joined = config_.joined;
  std::optional<TensorId> scores;
  if (style.relative_scores) scores = style.relative_scores(layer, inputs);
  attentions_.push_back(attention("attention", query, config_.own_cache(),
                                  config_.causal ? AttentionMask::causal_input : AttentionMask::bidirectional,
                                  window, own, scores));
  return attentions_.back();
}

TensorId EncoderBuilder::rotate_and_store(const AttentionInputs& inputs, const AttentionStyle& style,
                                          bool in_window) {
  RotaryStore store;
  store.layer = config_.own_cache();
  store.heads = config_.heads;
  store.kv_heads = config_.kv_heads;
  store.head_dim = config_.head_dim;
  store.rotary = style.rotary ? *style.rotary : config_.rotary;
  if (in_window && style.rotary_in_windows) store.rotary = *style.rotary_in_windows;
  if (store.rotary.pairs == RotaryPairs::none) {
    cache_store(graph(), prefix() + "stored", inputs.key, inputs.value, store.layer);
    return inputs.query;
  }
  std::vector<WeightId> norms;
  if (style.head_norms)
    norms = {norm_weight(style.query_norm, config_.head_dim), norm_weight(style.key_norm, config_.head_dim)};
  store.norm_eps = config_.norm_eps;
  store.value_norm = style.value_norm;
  store.query_norm = store.key_norm = style.head_norms;
  return rotary_store(graph(), prefix() + "rotated_query", inputs.query, inputs.key, inputs.value,
                      std::move(store), std::move(norms));
}

TensorId EncoderBuilder::attend_apart(const AttentionInputs& inputs, const AttentionStyle& style) {
  const TensorId result = attend(0, inputs, style);
  attentions_.pop_back();
  return result;
}

void EncoderBuilder::finish(TensorId x) {
  finish(x, [](TensorId same) { return same; });
}

void EncoderBuilder::finish(TensorId x, const std::function<TensorId(TensorId x)>& before) {
  hidden_state(x);
  last_hidden_state_ = x;
  if (config_.token_head == TokenHead::none) return;
  prefix("", "");
  const auto columns = static_cast<uint32_t>(config_.token_labels.size());
  logits_ = project(before(x), {config_.token_matrix, ""}, columns, true, "head");
}

TensorId EncoderBuilder::first_rows(TensorId x) {
  return select_rows(graph(), "first_rows", x);
}

TensorId EncoderBuilder::picked_rows(TensorId x, const PickRows& rule) {
  return pick_rows(graph(), "picked_rows", x, rule);
}

void EncoderBuilder::logits(TensorId x, const TensorName& name) {
  logits_ = project(x, name, static_cast<uint32_t>(config_.labels.size()), true, "head");
}

void EncoderBuilder::masked_head(const MaskedHeadNames& names, Activation activation) {
  prefix("", "");
  const auto bias = std::ranges::find_if(names.biases, [&](std::string_view name) {
    return has({name, ""}, "");
  });
  const bool own_table = has({names.table, ""}, ".weight");
  if (!has({names.dense, ""}, ".weight") || (!own_table && bias == names.biases.end())) return;
  const uint32_t columns = config_.embedding_columns();
  const auto vector_if = [&](std::string_view name, std::string_view suffix, uint64_t size) {
    return has({name, ""}, suffix) ? std::optional(tensor({name, ""}, suffix, size, 0, "head"))
                                   : std::nullopt;
  };
  MaskedHead head;
  head.dense = tensor({names.dense, ""}, ".weight", columns, config_.hidden, "head");
  head.dense_bias = vector_if(names.dense, ".bias", columns);
  const bool old_names = config_.gamma_and_beta;
  head.norm = tensor({names.norm, ""}, old_names ? ".gamma" : ".weight", columns, 0, "head");
  head.norm_bias = vector_if(names.norm, old_names ? ".beta" : ".bias", columns);
  head.table = own_table ? tensor({names.table, ""}, ".weight", config_.vocabulary, columns, "head")
                         : embedding_table_;
  if (bias != names.biases.end()) head.bias = tensor({*bias, ""}, "", config_.vocabulary, 0, "head");
  head.activation = activation;
  head.norm_eps = config_.norm_eps;
  masked_head_ = head;
}

void EncoderBuilder::add_masked_tensors() {
  const TensorId last = last_hidden_state_;
  const MaskedHead head = *masked_head_;
  readable_.add("logits", [=](Graph& to, const std::string& own, const ReadableExtent&) {
    return head.logits(to, own, last);
  });
  readable_.add("masked_logits", [=](Graph& to, const std::string& own, const ReadableExtent&) {
    return head.logits(to, own, select_rows(to, "masked_rows", last));
  });
  readable_.add("sparse_embedding", [=](Graph& to, const std::string& own, const ReadableExtent&) {
    return largest_rows(to, own, head.logits(to, own + ".logits", last));
  });
}

void EncoderBuilder::store_memory(uint32_t decoder_layer, TensorId keys, TensorId values) {
  const uint32_t cache = static_cast<uint32_t>(config_.memory.size()) + decoder_layer;
  memory_.push_back(cache_store(graph(), prefix() + "memory", keys, values, cache));
}

void EncoderBuilder::store_memory(TensorId x, const LayerNames& decoder) {
  for (uint32_t index = 0; index < config_.memory.size(); ++index) {
    const uint32_t rows = config_.memory[index].kv_heads * config_.memory[index].head_dim;
    layer(index, decoder.hugging_face, decoder.gguf);
    const TensorId keys = project_input(x, *decoder.cross_attention, Projection::key, rows);
    const TensorId values = project_input(x, *decoder.cross_attention, Projection::value, rows);
    store_memory(index, keys, values);
  }
}

EncoderGraph EncoderBuilder::take() {
  add_pooled_tensors(last_hidden_state_);
  if (pooler_output_) readable_.add("pooler_output", *pooler_output_);
  if (logits_) readable_.add("logits", *logits_);
  if (masked_head_ && !logits_) add_masked_tensors();
  add_stack_tensors(&ReadableExtent::input_context);
  std::vector<TensorId> cuts;
  if (!memory_.empty() && layer_inputs_.size() == config_.layers) {
    cuts = std::move(layer_inputs_);
    cuts.push_back(last_hidden_state_);
    cuts.insert(cuts.end(), memory_.begin(), memory_.end() - 1);
  }
  return {std::move(graph()), std::move(readable_), std::move(cuts)};
}

} // namespace pumice
