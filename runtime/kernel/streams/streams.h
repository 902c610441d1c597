#pragma once

#include <string>

#include "graph/graph.h"
#include "shaders/streams/mix_streams.params.h"

namespace pumice {

// Operations of AltUp (Baykal, Cutler, Dikkala, Ghosh, Panigrahy and Wang, Alternating Updates for Efficient
// Transformers, 2023): a row is several streams of equal columns, a multiple of four, of which each layer
// computes one and predicts the others.

// inputs: the streams; then of `predict` the routed numbers of a row, one for each stream, of `correct` these
// and what the layer made of stream `active`, of `add` columns for all streams but the first one. weights: a
// matrix of streams^2 (`predict`) or streams (`correct`) rows, by which the tangents of the routed numbers
// become factors. See shaders/streams/mix_streams.params.h.
struct MixStreams : Operation {
  enum class Kind : uint32_t {
    predict = MIX_STREAMS_PREDICT,
    correct = MIX_STREAMS_CORRECT,
    add = MIX_STREAMS_ADD,
  };
  Kind kind = Kind::predict;
  uint32_t streams = 1;
  uint32_t active = 0;
  float scale = 1; // of the routed numbers

  std::string_view name() const override { return "mix_streams"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Streams whose first is that of `first`, which may have more, and the others those of the second input,
// times what gives them the first one's root mean square. Or the mean of these. inputs: first, others.
struct MatchStreams : Operation {
  uint32_t streams = 1; // with the first
  bool mean = false;

  std::string_view name() const override { return "match_streams"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

constexpr uint32_t most_streams = 16;

TensorId predict_streams(Graph& graph, std::string name, TensorId x, TensorId routed, float scale,
                         WeightId coefficients, uint32_t streams);
// `operation` says how many streams there are, which one the layer computed, and the factor of what is
// routed.
TensorId correct_streams(Graph& graph, std::string name, TensorId x, TensorId routed, TensorId computed,
                         WeightId coefficients, MixStreams operation);
TensorId add_to_streams(Graph& graph, std::string name, TensorId x, TensorId added, uint32_t streams);
TensorId match_streams(Graph& graph, std::string name, TensorId first, TensorId others, uint32_t streams);
TensorId mean_stream(Graph& graph, std::string name, TensorId first, TensorId others, uint32_t streams);

} // namespace pumice
