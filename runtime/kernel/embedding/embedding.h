#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/packed_weight.h"
#include "kernel/step_layout.h"
#include "shaders/embedding/embedding.params.h"

namespace pumice {

// What selects a row's embedding. Positions are counted from the first position of the row's sequence that it
// may see.
enum class EmbeddingIndex : uint32_t {
  token = EMBEDDING_BY_TOKEN,
  position = EMBEDDING_BY_POSITION,
  token_type = EMBEDDING_BY_TYPE,
};

// result[row] = scale * table[offset + the row's token, position or type], for those in one segment of the
// table. Token 0 is that of rows with the bit PROMPT_ROW, and of tokens that the table has no row for.
struct EmbeddingArgs {
  PackedFormat format;
  uint32_t rows = 0; // of the whole table
  WeightSegment segment;
  float scale = 1;
  EmbeddingIndex index = EmbeddingIndex::token;
  uint32_t offset = 0;
  uint32_t first_token = 0;            // of the table
  std::optional<ActivationRef> others; // what rows are whose token the table lacks
  ActivationRef result;                // [tokens, columns of the table]
  BufferRef step;
  StepLayout step_layout;
};

Dispatch embedding(const DeviceProfile& profile, const EmbeddingArgs& args);

// result[i] = x[the row that output i of the step names].
struct SelectRowsArgs {
  ActivationRef x;      // [tokens, columns]
  ActivationRef result; // [outputs, columns]
  BufferRef step;
  uint32_t step_capacity = 0;
};

Dispatch select_rows(const DeviceProfile& profile, const SelectRowsArgs& args);

// weights: the table, [vocabulary, positions or types; columns]. inputs: none, or what rows are [tokens,
// columns] whose token is not one of the table's, which begin with `first_token`.
struct Embedding : Operation {
  float scale = 1;
  EmbeddingIndex index = EmbeddingIndex::token;
  uint32_t offset = 0;
  uint32_t first_token = 0;

  std::string_view name() const override { return "embedding"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: a tensor with a row for each token.
struct SelectRows : Operation {
  std::string_view name() const override { return "select_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x, but in rows whose token has the bit PROMPT_ROW columns of the same row of what the host gives,
// or x plus these. inputs: x [tokens, columns]; given, which may have more columns.
struct PromptRows : Operation {
  bool added = false;
  uint32_t first = 0; // of the columns of what is given, a multiple of 4

  std::string_view name() const override { return "prompt_rows"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId embedding(Graph& graph, std::string name, WeightId table, float scale = 1);
// x, but in rows of the table's tokens, the first of which is `first_token`.
TensorId further_embedding(Graph& graph, std::string name, TensorId x, WeightId table, uint32_t first_token);
// Learned positions; the table's row `offset` is that of the first.
TensorId position_embedding(Graph& graph, std::string name, WeightId table, uint32_t offset = 0);
TensorId token_type_embedding(Graph& graph, std::string name, WeightId table);
TensorId prompt_rows(Graph& graph, std::string name, TensorId x, TensorId given);
// The same where columns from `first` on are added to x.
TensorId added_prompt_rows(Graph& graph, std::string name, TensorId x, TensorId given, uint32_t first);
TensorId select_rows(Graph& graph, std::string name, TensorId x);

} // namespace pumice
