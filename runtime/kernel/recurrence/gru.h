#pragma once

#include "graph/graph.h"

namespace pumice {

// The most columns of a state: what an invocation has registers for, in the largest workgroup that every
// device has.
inline constexpr uint32_t most_gru_columns = 2048;

// A gated recurrent unit over each whole input of an encoder's step, see shaders/recurrence/gru.params.h.
// inputs: the gates' inputs [tokens, 3 * hidden] of the first direction and, if there are two, of the other.
// weights: of each direction [3 * hidden, hidden] and its bias [3 * hidden]. output: the states [tokens,
// directions * hidden].
struct Gru : Operation {
  uint32_t hidden = 0;

  std::string_view name() const override { return "gru"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// A decoder's gated recurrent unit with additive attention to the encoder's input, see
// shaders/recurrence/attentive_gru.params.h. inputs: the embeddings [tokens, hidden]. weights: those of
// AttentiveGruWeights. output: [tokens, 3 * hidden]: state, context, embedding. A second output keeps the
// weights of the input's positions.
struct AttentiveGru : Operation {
  uint32_t hidden = 0;
  uint32_t states = 0; // the cache that keeps the states, as keys
  uint32_t memory = 0; // the cache of the encoder's input

  std::string_view name() const override { return "attentive_gru"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

struct GruWeights {
  WeightId matrix = 0, bias = 0;
};
TensorId gru(Graph& graph, std::string name, std::span<const TensorId> gates,
             std::span<const GruWeights> weights, uint32_t hidden);

struct AttentiveGruWeights {
  WeightId bridge = 0, bridge_bias = 0, query = 0, score = 0, input = 0, input_bias = 0, state = 0,
           state_bias = 0;
};
TensorId attentive_gru(Graph& graph, std::string name, TensorId x, const AttentiveGruWeights& weights,
                       const AttentiveGru& operation);
// Adds the weights of the input's positions to what an attentive_gru() computes: [tokens, context].
TensorId attentive_gru_weights(Graph& graph, std::string name, TensorId gru, uint32_t context);

} // namespace pumice
