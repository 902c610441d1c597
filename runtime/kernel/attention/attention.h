#pragma once

#include <optional>
#include <string_view>

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

// How the kernels are named that compute queries, keys and values too; the type of the weight follows.
inline constexpr std::string_view projecting_attention = "attention.cpu8.qkv.";

// A head has 1 to this many dimensions.
constexpr uint32_t largest_head_dim = 576;

// Which positions of the cache a row of the step sees.
enum class AttentionMask : uint32_t {
  // Its sequence's positions, up to its own.
  causal = ATTENTION_MASK_CAUSAL,
  // All positions of its own input, before and after its own. The whole input is in the same step.
  bidirectional = ATTENTION_MASK_BIDIRECTIONAL,
  // All positions of the encoder's input that its sequence reads (cross-attention).
  cross = ATTENTION_MASK_CROSS,
  // The positions of its own input, up to its own. They are in the same step.
  causal_input = ATTENTION_MASK_CAUSAL_INPUT,
};

// A bias that is added to each score, by head and by distance between key and query (Raffel et al., T5,
// 2020). Distances are grouped into buckets: small distances have one bucket each, larger ones share ever
// wider buckets, and all from max_distance on share the last.
struct RelativeBias {
  uint32_t buckets = 0; // 0: there is no bias
  uint32_t max_distance = 0;
  bool both_ways =
      false; // half of the buckets are for keys after the query; otherwise those count as distance 0
  // Without a table: a head's factor, linear_bias_slope(), times the distance is subtracted from its scores
  // (Press et al., ALiBi, 2022). No context may have a distance above max_distance.
  bool linear = false;
  // Without a table: the bias depends on the row's query and the key too, and is read from position_scores().
  // Distances are to be clamped, or with `rounded` are grouped logarithmically, as DeBERTa has it; buckets
  // count from the farthest key after the query on.
  bool by_content = false;
  bool rounded = false;
  // With a table, in place of distances: an input is a class token and this many rows and columns of patches.
  // Each offset down and across has a bucket, and so have the class token as the query, as the key, and as
  // both (Bao et al., BEiT, 2022).
  uint32_t patch_rows = 0, patch_columns = 0;

  bool by_place() const { return patch_rows > 0; }
  uint32_t places() const { return 1 + patch_rows * patch_columns; }
  uint32_t place_buckets() const { return (2 * patch_rows - 1) * (2 * patch_columns - 1) + 3; }
  uint32_t place_bucket(uint32_t query, uint32_t key) const;
  uint32_t exact_buckets() const { return buckets / (both_ways ? 4 : 2); } // buckets for a single distance

  uint32_t bucket(int64_t key_minus_query) const;
};

// The factors are powers of two, in equal steps from head to head; where the number of heads is no power of
// two, the heads above the last one are put between the first ones.
float linear_bias_slope(uint32_t head, uint32_t heads);

// For each row of the step and each of its heads: softmax(scale * q . keys + bias) * values, over the
// positions that it sees. Heads share the cache's kv_heads in equal groups, in order. A row that sees nothing
// gets zeros.
struct AttentionArgs {
  ActivationRef q; // [rows, heads * head_dim], rotated
  CacheRef cache;
  // Set if this step's keys and values are not in the cache yet: the store that must happen first. If the
  // store has queries, it also rotates q; its result is not set.
  std::optional<RotaryStoreArgs> store;
  // Only with `store`. Set if q, k and v are not computed yet: the product that computes them, in this order
  // in one row.
  std::optional<MatmulArgs> projection;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0; // not 0: scores become cap * tanh(score / cap)
  // A row sees this many positions at most, its own included, and with the bidirectional mask as many on its
  // other side; 0: all.
  uint32_t window = 0;
  AttentionMask mask = AttentionMask::causal;
  // With a window: the row's own chunk of so many positions, counted from the sequence's start, up to the
  // row.
  bool chunked = false;
  // With the causal mask: rows with PROMPT_ROW see up to the end of their picture, which is in the same step.
  bool whole_pictures = false;
  // With the bidirectional mask: rows are patches of pictures, which see those of their window
  // (common/step.h).
  bool patch_windows = false;
  // With the bidirectional mask: an input is runs of so many rows, each of which sees its own run; 0: none.
  uint32_t run = 0;
  // With the bidirectional mask: so many rows of an input have become one, and these come first in it (see
  // JoinPatches), so that no row sees others.
  uint32_t joined = 1;
  // With the causal mask, and not with a bias: a row sees the positions alone whose bits are set in its row,
  // see chosen_positions.h.
  std::optional<ActivationRef> chosen;
  // [heads]: a score for each head that takes part in the softmax and has no value. Not with a bias.
  std::optional<BufferRef> sinks;
  RelativeBias bias;
  BufferRef bias_table;                     // [buckets, heads]
  std::optional<ActivationRef> bias_scores; // of a bias by content, [rows, 2 * heads * buckets]
  BufferRef bias_buckets; // the bucket of each distance from -max_distance to max_distance, as floats;
                          // a linear bias has one for each distance; by place: [places, places]
  // Neighbouring rows mostly belong to one sequence, as in a prefill. Only the speed depends on it.
  bool one_sequence = true;
  ActivationRef result; // [rows, heads * head_dim]
  // [rows, heads * 2]: each head's largest score and the sum of its weights, kept for attention_weights().
  std::optional<ActivationRef> sums;
  BufferRef step;
  StepLayout step_layout;
};

// An input whose first position is a multiple of this gets the same bits wherever it lies in the cache.
uint32_t attention_block(const DeviceProfile& profile, const CacheLayout& layout, bool causal = false);

// The variants, in order of preference where nothing was measured.
std::span<const KernelVariant<AttentionArgs>* const> attention_variants();
// The class of shapes that one measurement stands for.
std::string attention_shape_class(const AttentionArgs& args);
Status attention(Lowering& lowering, const AttentionArgs& args);

// Computes the attention weights, after an attention with these arguments has run and kept its sums. result:
// [rows, heads * context], for each head its positions; zeros where the row sees nothing.
Dispatch attention_weights(const DeviceProfile& profile, const AttentionArgs& args, uint32_t context);

// inputs: q, then the scores of a bias by content, or the chosen positions. weights: the bias's table
// [buckets, heads], where there is one (a linear bias has none), or the sinks [heads]. The layer's cache
// gives kv_heads and head_dim. A second output keeps the sums.
struct Attention : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  float scale = 1;
  float soft_cap = 0;
  uint32_t window = 0;
  AttentionMask mask = AttentionMask::causal;
  bool chunked = false;
  bool whole_pictures = false;
  bool patch_windows = false;
  uint32_t run = 0;
  uint32_t joined = 1;
  bool sinks = false;
  // Not 0: in sessions of more positions a row sees so many, which the last input names.
  uint32_t chosen = 0;
  RelativeBias bias;

  std::string_view name() const override { return "attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Stores the step's keys and values in the cache, then attends to them: in one kernel where the device has
// one. inputs: q, k, v as for RotaryStore, then the attention's after q. weights: the rotation's norms, then
// the attention's. Otherwise as Attention.
struct StoringAttention : Operation {
  std::optional<RotaryStore> rotary; // empty: keys and values are stored as they are
  Attention attention;

  std::string_view name() const override { return "storing_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  Result<AttentionArgs> args(Lowering& lowering, const Node& node) const;
};

// Computes queries, keys and values by one product, then does a StoringAttention: in one kernel where the
// device has one. inputs: x. weights: the product's, then the attention's. The second output is the product's
// result; `q`, `k` and `v` are views of it.
struct ProjectingAttention : Operation {
  Linear projection;
  size_t projection_weights = 0; // how many of the node's weights are the product's
  StoringAttention attention;
  TensorId q = 0, k = 0, v = 0;

  std::string_view name() const override { return "projecting_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: q, the sums that the attention kept, then the attention's after q.
struct AttentionWeights : Operation {
  Attention attention;
  std::vector<WeightId> weights; // the attention's

  std::string_view name() const override { return "attention_weights"; }
  std::string describe() const override { return attention.describe(); }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// q: [tokens, heads * head_dim]; so is the result.
TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation,
                   std::optional<WeightId> weight = {}, std::optional<TensorId> last_input = {});

// Adds the computation of an attention's weights right after it: [tokens, heads * context]. `attention`: its
// result. `context`: the number of positions, counted from the first of the sequence or of the input that the
// rows see.
TensorId attention_weights(Graph& graph, std::string name, TensorId attention, uint32_t context);

} // namespace pumice
