#pragma once

#include "graph/graph.h"
#include "shaders/pooling/pick_rows.params.h"

namespace pumice {

// For each output of the step, the mean over the rows of one input. The output names the input's first
// row. A number past the step's last row stands for an input without rows: the result is zeros.
// inputs: x [tokens, columns]. output: [outputs, columns].
struct MeanRows : Operation {
  bool largest = false; // of each column the largest number, at least 0, in place of the mean

  std::string_view name() const override { return largest ? "largest_rows" : "mean_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// One row of each input. As in MeanRows, the output names the input's first row, and an input without rows
// gives zeros. inputs: x [tokens, columns]. output: [outputs, columns].
struct PickRows : Operation {
  enum class Rule : uint32_t {
    last = PICK_ROWS_LAST,         // the last row
    first_of = PICK_ROWS_FIRST,    // the first row of `token`; the last row if there is none
    largest = PICK_ROWS_LARGEST,   // the first row of the token with the largest number
    numbered = PICK_ROWS_NUMBERED, // the row of this number, counted from 0; the last row if there is none
  };
  Rule rule = Rule::last;
  uint32_t token = 0; // of first_of; of numbered, the number

  std::string_view name() const override { return "pick_rows"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x / max(|x|, 1e-12), each row by its own length. inputs: x.
struct UnitLength : Operation {
  std::string_view name() const override { return "unit_length"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId mean_rows(Graph& graph, std::string name, TensorId x);
// MeanRows with `largest`.
TensorId largest_rows(Graph& graph, std::string name, TensorId x);
TensorId pick_rows(Graph& graph, std::string name, TensorId x, const PickRows& operation);
// PickRows with Rule::last.
TensorId last_row(Graph& graph, std::string name, TensorId x);
TensorId unit_length(Graph& graph, std::string name, TensorId x);

} // namespace pumice
