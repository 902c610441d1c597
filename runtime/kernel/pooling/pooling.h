#pragma once

#include "graph/graph.h"

namespace pumice {

// For each output of the step, the mean over the rows of one input, or its last row. The output names the
// input's first row. A number past the step's last row stands for an input without rows: the result is zeros.
// inputs: x [tokens, columns]. output: [outputs, columns].
struct MeanRows : Operation {
  bool last = false;

  std::string_view name() const override { return last ? "last_row" : "mean_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x / max(|x|, 1e-12), each row by its own length. inputs: x.
struct UnitLength : Operation {
  std::string_view name() const override { return "unit_length"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId mean_rows(Graph& graph, std::string name, TensorId x);
TensorId last_row(Graph& graph, std::string name, TensorId x);
TensorId unit_length(Graph& graph, std::string name, TensorId x);

} // namespace pumice
