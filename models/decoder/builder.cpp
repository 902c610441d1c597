#include "models/decoder/builder.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/attention.h"
#include "kernel/elementwise.h"
#include "kernel/embedding.h"
#include "kernel/linear.h"
#include "kernel/norm.h"

namespace pumice {

DecoderBuilder::DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file)
    : config_(config), gguf_(gguf), file_(file) {
  prefix("", "");
}

void DecoderBuilder::prefix(std::string hugging_face, std::string gguf) {
  hugging_face_prefix_ = config_.root + hugging_face;
  gguf_prefix_ = std::move(gguf);
}

void DecoderBuilder::layer(uint32_t layer, std::string_view hugging_face) {
  prefix(fmt::format(fmt::runtime(hugging_face), layer), fmt::format("blk.{}.", layer));
}

std::string DecoderBuilder::full_name(const TensorName& name, std::string_view suffix, bool gguf) const {
  return gguf ? fmt::format("{}{}{}", gguf_prefix_, name.gguf, suffix)
              : fmt::format("{}{}{}", hugging_face_prefix_, name.hugging_face, suffix);
}

const TensorView* DecoderBuilder::find(const std::string& name, const std::vector<uint64_t>& shape,
                                       std::string_view component) {
  if (const auto known = found_.find(name); known != found_.end()) return known->second;
  specs_.push_back({name, shape, std::string(component)});
  const TensorView* tensor = nullptr;
  if (file_ && status_.ok()) {
    if (auto required = file_->require(name, shape); !required.ok()) {
      status_ = required.error();
    } else {
      tensor = *required;
    }
  }
  if (!tensor) tensor = &listed_.emplace_back(TensorView{name, TensorType::f32, shape, {}});
  found_.emplace(name, tensor);
  return tensor;
}

void DecoderBuilder::twin(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                          std::vector<WeightView> parts, const GgufChange& change) {
  if (gguf_ || !file_) return;
  GgufTensor tensor;
  tensor.name = full_name(name, suffix, true);
  for (const GgufTensor& other : gguf_tensors_) {
    if (other.name == tensor.name) return;
  }
  tensor.shape = std::move(shape);
  tensor.parts = std::move(parts);
  tensor.rotary_heads = change.rotary_heads;
  tensor.rotary_dim = change.rotary_heads ? config_.rotary.dim : 0;
  tensor.offset = change.offset;
  tensor.scale = change.scale;
  gguf_tensors_.push_back(std::move(tensor));
}

WeightView DecoderBuilder::tensor(const TensorName& name, std::string_view suffix, uint64_t rows,
                                  uint64_t columns, std::string_view component, const GgufChange& change) {
  std::vector<uint64_t> shape = {rows};
  if (columns) shape.push_back(columns);
  const WeightView view = WeightView::whole(*find(full_name(name, suffix, gguf_), shape, component));
  twin(name, suffix, std::move(shape), {view}, change);
  return view;
}

WeightView DecoderBuilder::transposed_tensor(const TensorName& name, uint64_t rows, uint64_t columns,
                                             std::string_view component) {
  if (gguf_) return tensor(name, ".weight", rows, columns, component);
  const TensorView* stored = find(full_name(name, ".weight", false), {columns, rows}, component);
  if (info(stored->type).block_size > 1 && status_.ok()) {
    status_ = Error{Code::unsupported,
                    fmt::format("{}: tensor '{}': expected one of F32, F16, BF16, as it has to be "
                                "transposed; found {}",
                                file_->path(), stored->name, info(stored->type).name)};
  }
  const WeightView view = WeightView::transpose(*stored);
  twin(name, ".weight", {rows, columns}, {view});
  return view;
}

std::vector<WeightView> DecoderBuilder::fused_tensor(const TensorName& name, std::string_view suffix,
                                                     std::span<const uint64_t> counts, uint64_t columns,
                                                     uint64_t interleaved_run, std::string_view component) {
  uint64_t rows = 0;
  for (uint64_t count : counts) rows += count;
  std::vector<uint64_t> shape = {rows};
  if (columns) shape.push_back(columns);
  const WeightView whole = WeightView::whole(*find(full_name(name, suffix, gguf_), shape, component));
  std::vector<WeightView> parts;
  uint64_t begin = 0;
  for (uint64_t count : counts) {
    if (interleaved_run && !gguf_) {
      parts.push_back(whole.slice(begin, count, interleaved_run, interleaved_run * counts.size()));
      begin += interleaved_run;
    } else {
      parts.push_back(whole.slice(begin, count));
      begin += count;
    }
  }
  twin(name, suffix, std::move(shape), parts);
  return parts;
}

std::vector<WeightView> DecoderBuilder::expert_tensors(const TensorName& name, uint32_t experts,
                                                       uint64_t rows, uint64_t columns) {
  const std::string_view component = "feed-forward";
  std::vector<WeightView> views;
  if (gguf_) {
    const WeightView all =
        WeightView::whole(*find(full_name(name, ".weight", true), {experts, rows, columns}, component));
    for (uint32_t expert = 0; expert < experts; ++expert) views.push_back(all.slice(expert * rows, rows));
    return views;
  }
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const std::string one =
        hugging_face_prefix_ + fmt::format(fmt::runtime(name.hugging_face), expert) + ".weight";
    views.push_back(WeightView::whole(*find(one, {rows, columns}, component)));
  }
  twin(name, ".weight", {experts, rows, columns}, views);
  return views;
}

WeightId DecoderBuilder::weight(const WeightView& view, std::string_view component) {
  return graph().weight(view, std::string(component));
}

std::string DecoderBuilder::node_name(const TensorName& name) const {
  return full_name(name, "", gguf_);
}

TensorId DecoderBuilder::project(TensorId x, const std::string& name, const WeightView& matrix,
                                 const WeightView* bias, std::string_view component) {
  std::optional<WeightId> bias_id;
  if (bias) bias_id = weight(*bias, component);
  return linear(graph(), name, x, weight(matrix, component), bias_id);
}

TensorId DecoderBuilder::project(TensorId x, const TensorName& name, uint32_t rows, bool bias,
                                 std::string_view component) {
  const uint32_t columns = graph().tensor(x).columns;
  const WeightView matrix = tensor(name, ".weight", rows, columns, component);
  if (!bias) return project(x, node_name(name), matrix, nullptr, component);
  const WeightView added = tensor(name, ".bias", rows, 0, component);
  return project(x, node_name(name), matrix, &added, component);
}

WeightId DecoderBuilder::norm_weight(const TensorName& name, uint64_t size, float weight_offset,
                                     float scale) {
  const WeightView view = tensor(name, ".weight", size, 0, "norms", {0, weight_offset, scale});
  return weight(view, "norms");
}

TensorId DecoderBuilder::rms_norm(TensorId x, const TensorName& name, float weight_offset) {
  const WeightId weight = norm_weight(name, graph().tensor(x).columns, weight_offset);
  return pumice::rms_norm(graph(), node_name(name), x, weight, config_.norm_eps, gguf_ ? 0 : weight_offset);
}

TensorId DecoderBuilder::layer_norm(TensorId x, const TensorName& name) {
  const uint32_t size = graph().tensor(x).columns;
  const WeightId scale = weight(tensor(name, ".weight", size, 0, "norms"), "norms");
  const WeightId bias = weight(tensor(name, ".bias", size, 0, "norms"), "norms");
  return pumice::layer_norm(graph(), node_name(name), x, scale, bias, config_.norm_eps);
}

AttentionInputs DecoderBuilder::query_key_value(TensorId x, const AttentionStyle& style) {
  const bool bias = style.input_bias;
  const uint32_t columns = graph().tensor(x).columns;
  const auto one = [&](const TensorName& name, uint32_t rows, const GgufChange& change) {
    const WeightView matrix = tensor(name, ".weight", rows, columns, "attention", change);
    if (!bias) return project(x, node_name(name), matrix, nullptr, "attention");
    const WeightView added = tensor(name, ".bias", rows, 0, "attention", change);
    return project(x, node_name(name), matrix, &added, "attention");
  };
  const bool permuted = config_.neighbouring_in_gguf;
  AttentionInputs inputs;
  inputs.query = one({"self_attn.q_proj", "attn_q"}, config_.query_rows(),
                     {permuted ? config_.heads : 0, 0, style.head_norms ? 1 : config_.gguf_query_scale});
  inputs.key = one({"self_attn.k_proj", "attn_k"}, config_.key_rows(), {permuted ? config_.kv_heads : 0});
  inputs.value = one({"self_attn.v_proj", "attn_v"}, config_.key_rows(), {});
  return inputs;
}

TensorId DecoderBuilder::attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) {
  RotaryStore store;
  store.layer = layer;
  store.heads = config_.heads;
  store.kv_heads = config_.kv_heads;
  store.head_dim = config_.head_dim;
  store.rotary = style.rotary ? *style.rotary : config_.rotary;
  std::vector<WeightId> norms;
  if (style.head_norms) {
    store.query_norm = store.key_norm = true;
    store.norm_eps = config_.norm_eps;
    store.norm_offset = gguf_ ? 0 : style.head_norm_offset;
    norms = {norm_weight({"self_attn.q_norm", "attn_q_norm"}, config_.head_dim, style.head_norm_offset,
                         config_.gguf_query_scale),
             norm_weight({"self_attn.k_norm", "attn_k_norm"}, config_.head_dim, style.head_norm_offset)};
  }
  const std::string prefix = gguf_ ? gguf_prefix_ : hugging_face_prefix_;
  const TensorId rotated = rotary_store(graph(), prefix + "rotated_query", inputs.query, inputs.key,
                                        inputs.value, store, std::move(norms));
  Attention operation;
  operation.layer = layer;
  operation.heads = config_.heads;
  operation.scale =
      style.score_scale > 0 ? style.score_scale : 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  operation.window = config_.windows[layer];
  operation.soft_cap = style.soft_cap;
  result_.attentions.push_back(attention(graph(), prefix + "attention", rotated, operation));
  return result_.attentions.back();
}

TensorId DecoderBuilder::self_attention(uint32_t layer, TensorId x, const AttentionStyle& style) {
  const TensorId y = attend(layer, query_key_value(x, style), style);
  return project(y, {"self_attn.o_proj", "attn_output"}, config_.hidden, style.output_bias, "attention");
}

TensorId DecoderBuilder::gated_feed_forward(TensorId x, bool bias) {
  const std::string_view component = "feed-forward";
  const TensorId gated = project(x, {"mlp.gate_proj", "ffn_gate"}, config_.feed_forward, bias, component);
  const TensorId up = project(x, {"mlp.up_proj", "ffn_up"}, config_.feed_forward, bias, component);
  const std::string name = (gguf_ ? gguf_prefix_ : hugging_face_prefix_) + "gated";
  const TensorId y = gate(graph(), name, gated, up, config_.activation);
  return project(y, {"mlp.down_proj", "ffn_down"}, config_.hidden, bias, component);
}

TensorId DecoderBuilder::add(TensorId a, TensorId b, std::string_view name) {
  return pumice::add(graph(), (gguf_ ? gguf_prefix_ : hugging_face_prefix_) + std::string(name), a, b);
}

TensorId DecoderBuilder::pre_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                                        float norm_offset) {
  x = add(attention(rms_norm(x, {"input_layernorm", "attn_norm"}, norm_offset)), x, "attention_residual");
  const TensorId y = rms_norm(x, {"post_attention_layernorm", "ffn_norm"}, norm_offset);
  return add(feed_forward(y), x, "residual");
}

TensorId DecoderBuilder::sandwich_norm_block(TensorId x, const Sublayer& attention,
                                             const Sublayer& feed_forward, float norm_offset) {
  TensorId y = attention(rms_norm(x, {"input_layernorm", "attn_norm"}, norm_offset));
  y = rms_norm(y, {"post_attention_layernorm", "post_attention_norm"}, norm_offset);
  x = add(x, y, "attention_residual");
  y = feed_forward(rms_norm(x, {"pre_feedforward_layernorm", "ffn_norm"}, norm_offset));
  y = rms_norm(y, {"post_feedforward_layernorm", "post_ffw_norm"}, norm_offset);
  return add(x, y, "residual");
}

TensorId DecoderBuilder::embed(const TensorName& name, float scale) {
  embedding_table_ = tensor(name, ".weight", config_.vocabulary, config_.hidden, "embedding");
  return embedding(graph(), "embedding", weight(embedding_table_, "embedding"), scale);
}

void DecoderBuilder::finish(TensorId x, const TensorName& head, bool bias, float soft_cap) {
  prefix("", "");
  x = select_rows(graph(), "output_rows", x);
  WeightView matrix = embedding_table_;
  if (!config_.tied_head) {
    matrix = tensor(head, ".weight", config_.vocabulary, config_.hidden, "head");
  } else if (config_.gguf_needs_head) {
    twin(head, ".weight", {config_.vocabulary, config_.hidden}, {matrix});
  }
  std::optional<WeightView> added;
  if (bias) added = tensor(head, ".bias", config_.vocabulary, 0, "head");
  x = project(x, "logits", matrix, added ? &*added : nullptr, "head");
  if (soft_cap > 0) x = pumice::soft_cap(graph(), "capped_logits", x, soft_cap);
  result_.logits = x;
}

void DecoderBuilder::decode(const std::function<TensorId(uint32_t layer, TensorId x)>& block,
                            float embedding_scale, float norm_offset, float logit_soft_cap) {
  TensorId x = embed({"model.embed_tokens", "token_embd"}, embedding_scale);
  for (uint32_t index = 0; index < config_.layers; ++index) {
    hidden_state(x);
    layer(index);
    x = block(index, x);
  }
  prefix("", "");
  x = rms_norm(x, {"model.norm", "output_norm"}, norm_offset);
  hidden_state(x);
  finish(x, {"lm_head", "output"}, false, logit_soft_cap);
}

} // namespace pumice
