#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"

namespace pumice {

// Columns of each head of a row [heads * head_dim].
struct HeadColumns {
  uint32_t head_dim = 0; // from a head to the next; 0: all heads have the same columns
  uint32_t first = 0;    // of a head's
  uint32_t count = 0;
};

// One tensor's columns, as join_heads() reads them.
struct HeadSource {
  ActivationRef x;
  HeadColumns columns;
};

// result[row, head] = the first source's columns, then the second's, then zeros up to `result_head` floats;
// and zeros after the last head.
struct JoinHeadsArgs {
  uint32_t heads = 1;
  HeadSource first, second; // the second may have none
  ActivationRef result;     // [rows, heads * result_head]
  uint32_t result_head = 0;
  BufferRef step;
};
Dispatch join_heads(const DeviceProfile& profile, const JoinHeadsArgs& args);

// Puts columns of two tensors together, head by head. inputs: a, b. output: [rows, heads * (a.count +
// b.count)].
struct JoinHeads : Operation {
  uint32_t heads = 1;
  HeadColumns a, b;

  std::string_view name() const override { return "join_heads"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Multiplies columns of each head by a matrix that the head has for itself, or that all have. inputs: x.
// weights: a matrix [rows, x.count] for each head, or one. output: [tokens, heads * rows].
struct HeadLinear : Operation {
  HeadColumns x;
  uint32_t sharing = 0; // heads that have one matrix; 0: each has its own

  std::string_view name() const override { return "head_linear"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId join_heads(Graph& graph, std::string name, TensorId a, const HeadColumns& a_columns, TensorId b,
                    const HeadColumns& b_columns, uint32_t heads);
TensorId head_linear(Graph& graph, std::string name, TensorId x, const HeadColumns& columns,
                     std::vector<WeightId> matrices);
// The same with one matrix for so many heads.
TensorId shared_head_linear(Graph& graph, std::string name, TensorId x, const HeadColumns& columns,
                            uint32_t heads, WeightId matrix);

} // namespace pumice
