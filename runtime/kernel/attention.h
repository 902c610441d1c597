#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/dispatch.h"
#include "kernel/style.h"

namespace pumice {

// Heads are of 1 to this many dimensions.
constexpr uint32_t largest_head_dim = 512;

// For each row of the step and each of its heads: softmax(scale * q . keys) * values, over the positions of
// the row's sequence from the first that it may see to its own. Keys and values of this step's rows are in
// the cache already. Heads share the cache's kv_heads in equal groups, in order. A row that sees nothing gets
// zeros.
struct AttentionArgs {
  ActivationRef q; // [rows, heads * head_dim], rotated
  CacheRef cache;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;  // not 0: scores become cap * tanh(score / cap)
  uint32_t window = 0; // a row sees this many positions at most, its own included; 0: all
  uint32_t length = 0; // not 0: a row sees the positions before this one, later than its own too
  // Neighbouring rows are mostly of one sequence, as in a prefill. Only speed depends on it.
  bool one_sequence = true;
  ActivationRef result; // [rows, heads * head_dim]
  // [rows, heads * 2]: where each head's largest score and its sum are kept, for attention_weights().
  std::optional<ActivationRef> sums;
  BufferRef step;
};

Dispatch attention(const KernelStyle& style, const AttentionArgs& args);

// The weights themselves of an attention with these arguments, which has run and has kept its sums. result:
// [rows, heads * context], of each head its positions; zeros where the row sees nothing.
Dispatch attention_weights(const KernelStyle& style, const AttentionArgs& args, uint32_t context);

// inputs: q. The layer's cache gives kv_heads and head_dim. A second output keeps the sums.
struct Attention : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;
  uint32_t window = 0;
  uint32_t length = 0;

  std::string_view name() const override { return "attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: q, and the sums that the attention kept.
struct AttentionWeights : Operation {
  Attention attention;

  std::string_view name() const override { return "attention_weights"; }
  std::string describe() const override { return attention.describe(); }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// q: [tokens, heads * head_dim]; so is the result.
TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation);

// Adds the computation of an attention's weights, [tokens, heads * context], right after it. `attention` is
// its result, `context` that of the session.
TensorId attention_weights(Graph& graph, std::string name, TensorId attention, uint32_t context);

} // namespace pumice
