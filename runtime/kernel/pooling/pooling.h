#pragma once

#include "graph/graph.h"

namespace pumice {

// The mean over an input's rows, for each output of the step: the rows from the one that it names, which is
// its input's first, to the input's end; zeros where it names a row past the step's last, which stands for an
// input without rows. inputs: x [tokens, columns]. output: [outputs, columns].
struct MeanRows : Operation {
  std::string_view name() const override { return "mean_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x / max(|x|, 1e-12), each row by its own length. inputs: x.
struct UnitLength : Operation {
  std::string_view name() const override { return "unit_length"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId mean_rows(Graph& graph, std::string name, TensorId x);
TensorId unit_length(Graph& graph, std::string name, TensorId x);

} // namespace pumice
