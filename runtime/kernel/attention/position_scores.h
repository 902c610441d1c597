#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "kernel/attention/attention.h"

namespace pumice {

// The tensors of a layer that make keys and queries of relative positions.
struct PositionWeights {
  WeightView positions;                             // embeddings of relative positions, [buckets, hidden]
  std::optional<WeightView> norm_weight, norm_bias; // of a layer norm of them
  float norm_eps = 0;
  WeightView query, query_bias; // [heads * head_dim, hidden], [heads * head_dim]; without a tensor: zeros
  WeightView key, key_bias;     // the same; the matrix has one
};

// Scores of contents with relative positions (He et al., DeBERTa, 2021), for an attention with a bias by
// content: scale * query . (key of bucket), then scale * key . (query of bucket). The keys and queries of the
// buckets depend on weights alone. The host computes them once, when the first plan is made.
// inputs: q, k [tokens, heads * head_dim]. output: [tokens, 2 * heads * buckets].
class PositionScores : public Operation {
public:
  PositionScores(PositionWeights weights, uint32_t heads, float scale)
      : weights_(std::move(weights)), heads_(heads), scale_(scale),
        buckets_(static_cast<uint32_t>(weights_.positions.rows)) {}

  uint32_t columns() const { return 2 * heads_ * buckets_; }
  std::string_view name() const override { return "position_scores"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;

private:
  std::vector<float> make_table() const;

  PositionWeights weights_;
  uint32_t heads_ = 0;
  float scale_ = 1;
  uint32_t buckets_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<float> table_; // as the kernel reads it; empty until it is made
};

// The operations of a model's layers, which all its graphs share: each keeps what it has computed.
class KeptPositionScores {
public:
  // Of weights that are only listed, without a file: one that is not kept.
  std::shared_ptr<const PositionScores> of(uint32_t layer, PositionWeights weights, uint32_t heads,
                                           float scale) const;

private:
  mutable std::mutex mutex_;
  mutable std::map<uint32_t, std::shared_ptr<const PositionScores>> by_layer_;
};

TensorId position_scores(Graph& graph, std::string name, TensorId q, TensorId k,
                         std::shared_ptr<const PositionScores> operation);

} // namespace pumice
