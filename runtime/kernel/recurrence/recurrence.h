#pragma once

#include <limits>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "kernel/elementwise/elementwise.h"

namespace pumice {

// Operations that keep a state of each sequence instead of its positions. Each names the state it has in
// ModelShape::states.

// result = activation(bias + sum over k of weights[c, k] * x[position - taps + 1 + k]) of each channel c; x
// is zero before a text. inputs: x [tokens, channels]. weights: [channels, taps], and [channels] if it has a
// bias.
struct CausalConvolution : Operation {
  uint32_t state = 0;
  uint32_t taps = 0; // at least 2, at most most_taps
  Activation activation = Activation::none;

  static constexpr uint32_t most_taps = 16;
  static uint32_t state_floats(uint32_t channels, uint32_t taps) { return channels * (taps - 1); }
  std::string_view name() const override { return "causal_convolution"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Mamba 2's selective scan, see shaders/recurrence/selective_scan.params.h. inputs: x [tokens, heads *
// head_dim], b and c [tokens, groups * size], steps [tokens, heads]. weights: step_bias, skip, a [heads].
// output: [tokens, heads * head_dim].
struct SelectiveScan : Operation {
  uint32_t state = 0;
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  uint32_t groups = 1;
  uint32_t size = 0; // of a channel's state
  bool log_a = true; // a's weight is the logarithm of -a
  bool wide = false; // Mamba 1's: a is [heads, size], and heads have one channel
  float least_step = 0;
  float most_step = std::numeric_limits<float>::infinity();

  uint32_t columns() const { return heads * head_dim; }
  uint32_t state_floats() const { return columns() * size; }
  std::string_view name() const override { return "selective_scan"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// What each head of the gated delta rule keeps of its state and how fast it learns, see
// shaders/recurrence/delta_gates.params.h. inputs: decays and rates [tokens, value_heads]. weights:
// decay_bias, a [value_heads]. output: [tokens, 2 * value_heads].
struct DeltaGates : Operation {
  bool log_a = true; // a's weight is the logarithm of -a

  std::string_view name() const override { return "delta_gates"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// The gated delta rule, see shaders/recurrence/delta_rule.params.h. inputs: queries and keys [tokens,
// key_heads * key_dim], values [tokens, value_heads * value_dim], and the result of DeltaGates. output:
// [tokens, value_heads * value_dim].
struct DeltaRule : Operation {
  uint32_t state = 0;
  uint32_t key_heads = 0;
  uint32_t key_dim = 0;
  uint32_t value_heads = 0; // a multiple of key_heads
  uint32_t value_dim = 0;
  bool tiled = false; // value head h reads key head h % key_heads; otherwise neighbours read the same one
  bool log_a = true;  // see DeltaGates

  uint32_t columns() const { return value_heads * value_dim; }
  uint32_t key_share() const { return tiled ? 1 : value_heads / key_heads; } // neighbours of one key head
  uint32_t state_floats() const { return columns() * key_dim; }
  std::string_view name() const override { return "delta_rule"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// An RMS norm of each `head_dim` columns of a row. inputs: x. weights: as many as columns, or a divisor: they
// are used again and again.
struct HeadNorm : Operation {
  uint32_t head_dim = 0;
  float eps = 0;

  std::string_view name() const override { return "head_norm"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId causal_convolution(Graph& graph, std::string name, TensorId x, WeightId weights,
                            std::optional<WeightId> bias, const CausalConvolution& operation);
struct SelectiveScanInputs {
  TensorId x = 0, b = 0, c = 0, steps = 0;
  WeightId step_bias = 0, a = 0, skip = 0;
};
TensorId selective_scan(Graph& graph, std::string name, const SelectiveScanInputs& inputs,
                        const SelectiveScan& operation);
struct DeltaRuleInputs {
  TensorId query = 0, key = 0, value = 0, decays = 0, rates = 0;
  WeightId decay_bias = 0, a = 0;
};
TensorId delta_rule(Graph& graph, std::string name, const DeltaRuleInputs& inputs,
                    const DeltaRule& operation);
TensorId head_norm(Graph& graph, std::string name, TensorId x, WeightId weight, uint32_t head_dim, float eps);

// add(), gate() and gate_rows() that do not run on the output rows alone: products of one input are merged,
// and which are must not depend on what the host reads.
TensorId add_every_row(Graph& graph, std::string name, TensorId a, TensorId b);
TensorId gate_every_row(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation);
TensorId sigmoid_gate_every_row(Graph& graph, std::string name, TensorId a, TensorId b);

} // namespace pumice
