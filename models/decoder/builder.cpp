#include "models/decoder/builder.h"

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/scoring/scoring.h"

namespace pumice {

DecoderBuilder::DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file)
    : StackBuilder(config, gguf, file), config_(config) {}

void DecoderBuilder::layer(uint32_t layer, std::string_view hugging_face) {
  ModelBuilder::layer(layer, hugging_face);
}

DecoderGraph DecoderBuilder::take() {
  readable_.add("logits", logits_);
  readable_.add("log_likelihoods",
                [logits = logits_](Graph& to, const std::string& name, const ReadableExtent&) {
                  return log_likelihood(to, name, logits);
                });
  add_stack_tensors(&ReadableExtent::context);
  return {std::move(graph()), std::move(readable_), logits_};
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
      one({"self_attn.q_proj", "attn_q"}, config_.query_rows(),
          {permuted ? config_.heads : 0, rotary_dim, 0, style.head_norms ? 1 : config_.gguf_query_scale});
  inputs.key =
      one({"self_attn.k_proj", "attn_k"}, config_.key_rows(), {permuted ? config_.kv_heads : 0, rotary_dim});
  inputs.value = one({"self_attn.v_proj", "attn_v"}, config_.key_rows(), {});
  return inputs;
}

TensorId DecoderBuilder::rotate_and_store(uint32_t layer, const AttentionInputs& inputs,
                                          const AttentionStyle& style) {
  RotaryStore store;
  store.layer = layer;
  store.heads = config_.heads;
  store.kv_heads = config_.kv_heads;
  store.head_dim = config_.head_dim;
  store.rotary = style.rotary ? *style.rotary : config_.rotary;
  if (store.rotary.pairs == RotaryPairs::none && !style.head_norms) {
    cache_store(graph(), prefix() + "stored", inputs.key, inputs.value, layer);
    return inputs.query;
  }
  std::vector<WeightId> norms;
  if (style.head_norms) {
    store.query_norm = store.key_norm = true;
    store.norm_eps = config_.norm_eps;
    store.norm_offset = gguf() ? 0 : style.head_norm_offset;
    norms = {norm_weight({"self_attn.q_norm", "attn_q_norm"}, config_.head_dim, style.head_norm_offset,
                         config_.gguf_query_scale),
             norm_weight({"self_attn.k_norm", "attn_k_norm"}, config_.head_dim, style.head_norm_offset)};
  }
  return rotary_store(graph(), prefix() + "rotated_query", inputs.query, inputs.key, inputs.value, store,
                      std::move(norms));
}

TensorId DecoderBuilder::attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) {
  const TensorId query = rotate_and_store(layer, inputs, style);
  attentions_.push_back(
      attention("attention", query, layer, AttentionMask::causal, config_.windows[layer], style));
  return attentions_.back();
}

TensorId DecoderBuilder::self_attention(uint32_t layer, TensorId x, const AttentionStyle& style) {
  const TensorId y = attend(layer, query_key_value(x, style), style);
  return project(y, {"self_attn.o_proj", "attn_output"}, config_.hidden, style.output_bias, "attention");
}

TensorId DecoderBuilder::gated_feed_forward(TensorId x, bool bias) {
  const std::string_view component = "feed-forward";
  const TensorId gated = project(x, {"mlp.gate_proj", "ffn_gate"}, config_.feed_forward, bias, component);
  const TensorId up = project(x, {"mlp.up_proj", "ffn_up"}, config_.feed_forward, bias, component);
  const std::string name = prefix() + "gated";
  const TensorId y = gate(graph(), name, gated, up, config_.activation);
  return project(y, {"mlp.down_proj", "ffn_down"}, config_.hidden, bias, component);
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

void DecoderBuilder::finish(TensorId x, const TensorName& head, const WeightView* bias, float soft_cap) {
  prefix("", "");
  x = select_rows(graph(), "output_rows", x);
  WeightView matrix = embedding_table_;
  if (!config_.tied_head) {
    matrix = tensor(head, ".weight", config_.vocabulary, config_.hidden, "head");
  } else if (config_.gguf_needs_head) {
    add_gguf_tensor(head, ".weight", {config_.vocabulary, config_.hidden}, {matrix});
  }
  x = project(x, "logits", matrix, bias, "head");
  if (soft_cap > 0) x = pumice::soft_cap(graph(), "capped_logits", x, soft_cap);
  logits_ = x;
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
  finish(x, {"lm_head", "output"}, nullptr, logit_soft_cap);
}

} // namespace pumice
