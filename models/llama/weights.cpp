#include "models/llama/weights.h"

#include <fmt/format.h>

namespace pumice {

std::vector<WeightSpec> llama_weights(const LlamaConfig& config, const LlamaNames& names) {
  std::vector<WeightSpec> specs;
  std::string prefix;
  const auto vector = [&](const char* name, uint64_t size, const char* component) {
    specs.push_back({prefix + name + ".weight", {size}, component});
  };
  const auto matrix = [&](const char* name, uint64_t rows, uint64_t columns, bool bias,
                          const char* component) {
    specs.push_back({prefix + name + ".weight", {rows, columns}, component});
    if (bias) specs.push_back({prefix + name + ".bias", {rows}, component});
  };
  const uint64_t hidden = config.hidden, feed_forward = config.feed_forward;
  const uint64_t query_rows = uint64_t{config.heads} * config.head_dim;
  const uint64_t key_rows = uint64_t{config.kv_heads} * config.head_dim;

  matrix(names.embedding, config.vocabulary, hidden, false, "embedding");
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    prefix = fmt::format(fmt::runtime(names.layer_prefix), layer);
    vector(names.attention_norm, hidden, "norms");
    matrix(names.query, query_rows, hidden, config.attention_bias, "attention");
    matrix(names.key, key_rows, hidden, config.attention_bias, "attention");
    matrix(names.value, key_rows, hidden, config.attention_bias, "attention");
    matrix(names.attention_output, hidden, query_rows, config.attention_bias, "attention");
    vector(names.feed_forward_norm, hidden, "norms");
    matrix(names.gate, feed_forward, hidden, config.feed_forward_bias, "feed-forward");
    matrix(names.up, feed_forward, hidden, config.feed_forward_bias, "feed-forward");
    matrix(names.down, hidden, feed_forward, config.feed_forward_bias, "feed-forward");
  }
  prefix.clear();
  vector(names.final_norm, hidden, "norms");
  if (!config.tied_head) matrix(names.head, config.vocabulary, hidden, false, "head");
  return specs;
}

} // namespace pumice
