#include "models/encoder/builder.h"

#include "kernel/embedding/embedding.h"
#include "kernel/position/position.h"

namespace pumice {

EncoderBuilder::EncoderBuilder(const EncoderConfig& config, bool gguf, const ModelFile* file)
    : StackBuilder(config, gguf, file), config_(config) {}

TensorId EncoderBuilder::attend(uint32_t, const AttentionInputs& inputs, const AttentionStyle& style) {
  const uint32_t cache = config_.own_cache();
  cache_store(graph(), prefix() + "stored", inputs.key, inputs.value, cache);
  attentions_.push_back(attention("attention", inputs.query, cache,
                                  config_.causal ? AttentionMask::causal_input : AttentionMask::bidirectional,
                                  0, style));
  return attentions_.back();
}

TensorId EncoderBuilder::attend_apart(const AttentionInputs& inputs) {
  const TensorId result = attend(0, inputs, {});
  attentions_.pop_back();
  return result;
}

void EncoderBuilder::finish(TensorId x) {
  hidden_state(x);
  last_hidden_state_ = x;
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

void EncoderBuilder::store_memory(uint32_t decoder_layer, TensorId keys, TensorId values) {
  const uint32_t cache = static_cast<uint32_t>(config_.memory.size()) + decoder_layer;
  cache_store(graph(), prefix() + "memory", keys, values, cache);
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
  readable_.add("last_hidden_state", last_hidden_state_);
  const auto embedding = [last = last_hidden_state_](TensorId (*pool)(Graph&, std::string, TensorId),
                                                     const char* pooled) {
    return [=](Graph& to, const std::string& name, const ReadableExtent&) {
      return unit_length(to, name, pool(to, pooled, last));
    };
  };
  readable_.add("sentence_embedding_mean", embedding(mean_rows, "mean"));
  readable_.add("sentence_embedding_cls", embedding(select_rows, "first_row"));
  if (pooler_output_) readable_.add("pooler_output", *pooler_output_);
  if (logits_) readable_.add("logits", *logits_);
  add_stack_tensors(&ReadableExtent::input_context);
  return {std::move(graph()), std::move(readable_)};
}

} // namespace pumice
