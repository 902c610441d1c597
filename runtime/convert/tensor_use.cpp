#include "convert/tensor_use.h"

#include <memory>

#include "graph/graph.h"
#include "kernel/embedding/embedding.h"
#include "kernel/heads/heads.h"
#include "kernel/matmul/linear.h"

namespace pumice {

namespace {

using Uses = std::unordered_map<std::string, TensorUse>;

// Whether an operation's kernels take its first weight as a packed matrix, of any type.
bool takes_matrix(const Operation& operation) {
  if (const auto* embedding = dynamic_cast<const Embedding*>(&operation))
    return embedding->index == EmbeddingIndex::token;
  return dynamic_cast<const Linear*>(&operation) || dynamic_cast<const HeadLinear*>(&operation);
}

// Whether the rows of a matrix are whole rows of the tensor, which blocks can fill.
bool in_whole_rows(const WeightView& view) {
  return !view.transposed && view.tensor->shape.size() == 2 && view.columns == view.tensor->shape.back();
}

void add_uses(const Graph& graph, Uses& uses) {
  for (const Node& node : graph.nodes()) {
    const bool takes = takes_matrix(*node.operation);
    for (const WeightId id : node.weights) {
      const Weight& weight = graph.weight(id);
      if (weight.view.tensor->shape.size() < 2) continue; // a bias
      TensorUse& use = uses[weight.view.tensor->name];
      const bool whole = in_whole_rows(weight.view);
      use.matrix |= takes && whole;
      use.other |= !takes;
      if (takes && whole) use.head |= weight.component == "head";
    }
  }
}

Status add_uses_of(const ModelFile& file, const ModelDefinition& definition, Uses& uses) {
  const ModelShape shape = definition.shape();
  if (shape.encoder) {
    PUMICE_TRY(const EncoderGraph encoder, definition.encoder_graph(file));
    add_uses(encoder.graph, uses);
  }
  if (shape.has_decoder()) {
    PUMICE_TRY(const DecoderGraph decoder, definition.graph(file));
    add_uses(decoder.graph, uses);
  }
  return {};
}

} // namespace

Result<Uses> tensor_uses(const ModelFile& file, const ModelDefinition& definition) {
  Uses uses;
  PUMICE_CHECK(add_uses_of(file, definition, uses));
  if (has_picture_tower(file)) {
    PUMICE_TRY(const std::unique_ptr<ModelDefinition> pictures, open_model_definition(file, Tower::pictures));
    PUMICE_CHECK(add_uses_of(file, *pictures, uses));
  }
  if (const auto layer = definition.prediction_layer(file); layer.ok())
    PUMICE_CHECK(add_uses_of(file, **layer, uses));
  return uses;
}

} // namespace pumice
