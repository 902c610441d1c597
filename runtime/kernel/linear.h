#pragma once

#include "graph/graph.h"
#include "kernel/activation.h"

namespace pumice {

// result = activation(x * weight^T + bias) + residual, or activation(x * gate^T) * (x * up^T) when gated.
// x: [rows, k], weight: [n, k], bias: [n], residual and result: [rows, n].
// Several weights are one product whose result has their columns one after the other, each padded to a
// multiple of 8. inputs: x, then the residual if any. weights: the matrices (gate, up when gated), then as
// many biases or none.
struct Linear : Operation {
  uint32_t matrices = 1;
  bool bias = false;
  bool residual = false;
  bool gated = false;
  Activation activation = Activation::none;

  std::string_view name() const override { return "linear"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId linear(Graph& graph, std::string name, TensorId x, WeightId weight,
                std::optional<WeightId> bias = std::nullopt);

} // namespace pumice
