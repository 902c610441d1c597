#pragma once

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/packed_weight.h"
#include "kernel/style.h"

namespace pumice {

enum class EmbeddingIndex : uint32_t { token, position };

// result[row] = scale * table[the row's token or position], for those in one segment of the table.
struct EmbeddingArgs {
  PackedFormat format;
  uint32_t tiles = 0; // of the whole table
  WeightSegment segment;
  float scale = 1;
  EmbeddingIndex index = EmbeddingIndex::token;
  ActivationRef result; // [tokens, columns of the table]
  BufferRef step;
};

Dispatch embedding(const KernelStyle& style, const EmbeddingArgs& args);

// result[i] = x[the row that output i of the step names].
struct SelectRowsArgs {
  ActivationRef x;      // [tokens, columns]
  ActivationRef result; // [outputs, columns]
  BufferRef step;
  uint32_t step_capacity = 0;
};

Dispatch select_rows(const KernelStyle& style, const SelectRowsArgs& args);

// weights: the table, [vocabulary or positions, columns].
struct Embedding : Operation {
  float scale = 1;
  EmbeddingIndex index = EmbeddingIndex::token;

  std::string_view name() const override { return "embedding"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: a tensor with a row for each token.
struct SelectRows : Operation {
  std::string_view name() const override { return "select_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId embedding(Graph& graph, std::string name, WeightId table, float scale = 1);
TensorId position_embedding(Graph& graph, std::string name,
                            WeightId table); // learned positions, as GPT-2 has
TensorId select_rows(Graph& graph, std::string name, TensorId x);

} // namespace pumice
