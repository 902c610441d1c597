#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/dispatch.h"
#include "kernel/matmul/linear.h"
#include "kernel/position/position.h"
#include "kernel/step_layout.h"
#include "kernel/variant.h"
#include "shaders/attention/attention.params.h"

namespace pumice {

// Heads are of 1 to this many dimensions.
constexpr uint32_t largest_head_dim = 512;

// Which positions of the cache a row of the step sees.
enum class AttentionMask : uint32_t {
  // Of its sequence, from the first that it may see to its own.
  causal = ATTENTION_MASK_CAUSAL,
  // Of its whole input, which its step has too: from the first that it may see to before its end.
  bidirectional = ATTENTION_MASK_BIDIRECTIONAL,
  // Of the encoder's input that its sequence is about, whatever its own position.
  cross = ATTENTION_MASK_CROSS,
};

// A number added to the scores by how far a key is from the query, each head its own (Raffel et al., T5,
// 2020). Distances fall into buckets: single ones first, then ever wider ones, all from max_distance on into
// the last.
struct RelativeBias {
  uint32_t buckets = 0; // 0: there is no bias
  uint32_t max_distance = 0;
  bool both_ways = false; // keys after the query have half of the buckets; otherwise they are all as if at 0

  uint32_t exact_buckets() const { return buckets / (both_ways ? 4 : 2); } // of a single distance

  uint32_t bucket(int64_t key_minus_query) const;
};

// For each row of the step and each of its heads: softmax(scale * q . keys + bias) * values, over the
// positions that it sees. Heads share the cache's kv_heads in equal groups, in order. A row that sees nothing
// gets zeros.
struct AttentionArgs {
  ActivationRef q; // [rows, heads * head_dim], rotated
  CacheRef cache;
  // What has still to be done to have the keys and values of this step's rows in the cache, and q rotated
  // where this has queries; its result is not set. Otherwise they are there already.
  std::optional<RotaryStoreArgs> store;
  // With the former: the product that makes its q, k and v, in this order in one row, where that has still to
  // be done.
  std::optional<MatmulArgs> projection;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;  // not 0: scores become cap * tanh(score / cap)
  uint32_t window = 0; // a row sees this many positions at most, its own included; 0: all
  AttentionMask mask = AttentionMask::causal;
  RelativeBias bias;
  BufferRef bias_table;   // [buckets, heads]
  BufferRef bias_buckets; // the bucket of each distance from -max_distance to max_distance, as floats
  // Neighbouring rows are mostly of one sequence, as in a prefill. Only speed depends on it.
  bool one_sequence = true;
  ActivationRef result; // [rows, heads * head_dim]
  // [rows, heads * 2]: where each head's largest score and its sum are kept, for attention_weights().
  std::optional<ActivationRef> sums;
  BufferRef step;
  StepLayout step_layout;
};

// Positions whose arithmetic hangs together: an input whose first position is a multiple of this gets the
// same bits wherever it lies in the cache.
uint32_t attention_block(const DeviceProfile& profile, const CacheLayout& layout);

// The ways to compute it, in order of preference where nothing was measured.
std::span<const KernelVariant<AttentionArgs>* const> attention_variants();
std::string attention_shape_class(const AttentionArgs& args); // those that are measured together
Status attention(Lowering& lowering, const AttentionArgs& args);

// The weights themselves of an attention with these arguments, which has run and has kept its sums. result:
// [rows, heads * context], of each head its positions; zeros where the row sees nothing.
Dispatch attention_weights(const DeviceProfile& profile, const AttentionArgs& args, uint32_t context);

// inputs: q. weights: the bias's table [buckets, heads], where there is one. The layer's cache gives kv_heads
// and head_dim. A second output keeps the sums.
struct Attention : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;
  uint32_t window = 0;
  AttentionMask mask = AttentionMask::causal;
  RelativeBias bias;

  std::string_view name() const override { return "attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// What keeps the step's keys and values and the attention to them, in one where the device has that.
// inputs: q, k, v as the store's. weights: the rotation's norms, then the attention's. Otherwise as
// Attention.
struct StoringAttention : Operation {
  std::optional<RotaryStore> rotary; // otherwise they are kept as they are
  Attention attention;

  std::string_view name() const override { return "storing_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  Result<AttentionArgs> args(Lowering& lowering, const Node& node) const;
};

// The product that makes queries, keys and values and what reads nothing else, in one where the device has
// that. inputs: x. weights: the product's, then the attention's. The second output is the product's result,
// which `q`, `k` and `v` are views of.
struct ProjectingAttention : Operation {
  Linear projection;
  size_t projection_weights = 0; // how many of the node's
  StoringAttention attention;
  TensorId q = 0, k = 0, v = 0;

  std::string_view name() const override { return "projecting_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: q, and the sums that the attention kept.
struct AttentionWeights : Operation {
  Attention attention;
  std::vector<WeightId> bias_table; // the attention's, or none

  std::string_view name() const override { return "attention_weights"; }
  std::string describe() const override { return attention.describe(); }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// q: [tokens, heads * head_dim]; so is the result.
TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation,
                   std::optional<WeightId> bias_table = {});

// Adds the computation of an attention's weights, [tokens, heads * context], right after it. `attention` is
// its result, `context` the most positions that are wanted: counted from the sequence's first, or from that
// of the input that is seen.
TensorId attention_weights(Graph& graph, std::string name, TensorId attention, uint32_t context);

} // namespace pumice
