#pragma once

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/dispatch.h"
#include "kernel/style.h"

namespace pumice {

// For each row of the step and each of its heads: softmax(scale * q . keys) * values, over the positions of
// the row's sequence from the first that it may see to its own. Keys and values of this step's rows are in
// the cache already. Heads share the cache's kv_heads in equal groups, in order. A row that sees nothing gets
// zeros.
struct AttentionArgs {
  ActivationRef q; // [rows, heads * head_dim], rotated
  CacheRef cache;
  uint32_t heads = 0;
  float scale = 1;
  uint32_t window = 0; // a row sees this many positions at most, its own included; 0: all
  uint32_t length = 0; // not 0: a row sees the positions before this one, later than its own too
  // Neighbouring rows are mostly of one sequence, as in a prefill. Only speed depends on it.
  bool one_sequence = true;
  ActivationRef result; // [rows, heads * head_dim]
  BufferRef step;
};

Dispatch attention(const KernelStyle& style, const AttentionArgs& args);

// inputs: q. The layer's cache gives kv_heads and head_dim.
struct Attention : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  float scale = 1;
  uint32_t window = 0;
  uint32_t length = 0;

  std::string_view name() const override { return "attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// q: [tokens, heads * head_dim]; so is the result.
TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation);

} // namespace pumice
