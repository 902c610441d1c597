#pragma once

#include "graph/graph.h"
#include "kernel/activation.h"
#include "kernel/matmul/matmul.h"

namespace pumice {

// A root-mean-square norm that runs in the products before and after it. The product before it writes rows of
// three sections, each beginning at a multiple of merged_columns: its result, the result times the norm's
// weight, and the sums of the result's squares over each eight columns. The products after it read the second
// section and multiply their results by 1 / sqrt(mean of squares + eps).
struct NormSplit {
  float eps = 0;
  float weight_offset = 0;
  uint32_t columns = 0; // columns of the norm

  uint32_t normed_at() const; // where the second section begins, in floats from the first
  uint32_t sums_at() const;   // where the third section begins, likewise
  uint32_t row_columns() const;
};

// Where the second half of a product's adapters lies, which the product adds itself (MatmulAdapter).
struct LinearAdapter {
  BufferRef matrix;
  uint64_t place_bytes = 0;
  TensorType numbers = TensorType::f32;
  uint32_t rank = 0;
  uint32_t first = 0; // of the sums that are its matrices', among those of all products of its x
};

// result = activation(x * weight^T + bias) + residual, or activation(x * gate^T) * (x * up^T) when gated.
// x: [rows, k], weight: [n, k], bias: [n], residual and result: [rows, n].
// Several weights are one product whose result has their columns one after the other, each padded to a
// multiple of 8. inputs: x, then the residual if any, then what adapters have computed of x, if any. weights:
// the matrices (gate, up when gated), then as many biases or none.
struct Linear : Operation {
  uint32_t matrices = 1;
  bool bias = false;
  bool residual = false;
  bool gated = false;
  Activation activation = Activation::none;
  // What follows adds to the result before the activation and the gate, and does these too: the result is
  // that of the product and its bias; if gated, eight columns of the gate, eight of the other factor, and so
  // on.
  bool adapted = false;
  std::optional<LinearAdapter> adapter; // the same on devices whose products do it all themselves
  bool selected = false; // only the rows of x and of the residual that the step's outputs name, as SelectRows
  std::optional<NormSplit> norm_before; // x is the second section of the product before
  std::optional<NormSplit> norm_after;  // the result has three sections

  std::string_view name() const override { return "linear"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
  // A product for each of the weight's segments.
  Result<std::vector<MatmulArgs>> args(Lowering& lowering, const Node& node) const;
};

TensorId linear(Graph& graph, std::string name, TensorId x, WeightId weight,
                std::optional<WeightId> bias = std::nullopt);

} // namespace pumice
