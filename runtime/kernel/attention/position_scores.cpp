#include "kernel/attention/position_scores.h"

#include <cmath>

#include <fmt/format.h>

#include "base/dot.h"
#include "base/workers.h"
#include "kernel/lowering.h"
#include "shaders/attention/position_scores.params.h"

namespace pumice {

namespace {

constexpr size_t most_threads = 64;

void normalize(std::span<float> row, std::span<const float> weight, std::span<const float> bias, float eps) {
  double mean = 0, variance = 0;
  for (float x : row) mean += x;
  mean /= static_cast<double>(row.size());
  for (float x : row) variance += (x - mean) * (x - mean);
  const double share = 1 / std::sqrt(variance / static_cast<double>(row.size()) + eps);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>((row[i] - mean) * share * weight[i] + bias[i]);
}

// Empty where there is no tensor.
std::vector<float> decoded(const WeightView& view) {
  return view.tensor ? decode_vector(view) : std::vector<float>();
}

} // namespace

std::vector<float> PositionScores::make_table() const {
  const size_t hidden = weights_.positions.columns, rows = weights_.key.rows, head_dim = rows / heads_;
  const size_t quads = (head_dim + 3) / 4;
  std::vector<float> positions = decode_vector(weights_.positions);
  if (weights_.norm_weight) {
    const std::vector<float> weight = decode_vector(*weights_.norm_weight),
                             bias = decode_vector(*weights_.norm_bias);
    for (size_t bucket = 0; bucket < buckets_; ++bucket)
      normalize(std::span(positions).subspan(bucket * hidden, hidden), weight, bias, weights_.norm_eps);
  }
  std::vector<float> table(2 * heads_ * quads * buckets_ * 4);
  Workers workers(most_threads);
  for (size_t side = 0; side < 2; ++side) { // queries meet keys, and keys meet queries
    const std::vector<float> matrix = decoded(side == 0 ? weights_.key : weights_.query);
    const std::vector<float> bias = decoded(side == 0 ? weights_.key_bias : weights_.query_bias);
    (void)workers.run(rows, [&](size_t row) {
      const size_t head = row / head_dim, d = row % head_dim;
      float* to = &table[((side * heads_ + head) * quads + d / 4) * buckets_ * 4 + d % 4];
      for (size_t bucket = 0; bucket < buckets_; ++bucket) {
        const float product =
            matrix.empty() ? 0 : dot(&matrix[row * hidden], &positions[bucket * hidden], hidden);
        to[bucket * 4] = bias.empty() ? product : product + bias[row];
      }
    });
  }
  return table;
}

std::string PositionScores::describe() const {
  return fmt::format("heads {} buckets {} scale {:.6g}", heads_, buckets_, scale_);
}

Status PositionScores::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef q = lowering.tensor(node.inputs[0]), k = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  const BoundView bound_q = bound_view(q), bound_k = bound_view(k);
  const auto head_dim = static_cast<uint32_t>(weights_.key.rows / heads_);
  BufferRef table;
  {
    const std::lock_guard lock(mutex_);
    if (table_.empty()) table_ = make_table();
    PUMICE_TRY(table,
               lowering.constants(fmt::format("positions with {}", weights_.key.tensor->name), table_));
  }
  Dispatch dispatch;
  dispatch.kernel = "position_scores";
  dispatch.constants = {lowering.profile().workgroup, head_dim};
  PositionScoresParams params = {};
  params.q_first = bound_q.first;
  params.q_stride = q.stride;
  params.k_first = bound_k.first;
  params.k_stride = k.stride;
  params.result_stride = result.stride;
  params.heads = heads_;
  params.buckets = buckets_;
  params.scale = scale_;
  dispatch.set_params(params);
  dispatch.bind(POSITION_SCORES_STEP, lowering.step(), Access::read);
  dispatch.bind(POSITION_SCORES_Q, bound_q.buffer, Access::read);
  dispatch.bind(POSITION_SCORES_K, bound_k.buffer, Access::read);
  dispatch.bind(POSITION_SCORES_TABLE, table, Access::read);
  dispatch.bind(POSITION_SCORES_RESULT, result.buffer, Access::write);
  dispatch.groups = {(result.rows + POSITION_SCORES_ROWS - 1) / POSITION_SCORES_ROWS, heads_, 2};
  dispatch.flops = 2.0 * result.rows * result.columns * head_dim;
  dispatch.bytes = 4.0 * result.rows * result.columns + 4.0 * static_cast<double>(table_.size());
  lowering.emit(std::move(dispatch));
  return {};
}

std::shared_ptr<const PositionScores> KeptPositionScores::of(uint32_t layer, PositionWeights weights,
                                                             uint32_t heads, float scale) const {
  const bool listed = weights.key.tensor->data.empty();
  auto made = std::make_shared<const PositionScores>(std::move(weights), heads, scale);
  if (listed) return made;
  const std::lock_guard lock(mutex_);
  return by_layer_.try_emplace(layer, std::move(made)).first->second;
}

TensorId position_scores(Graph& graph, std::string name, TensorId q, TensorId k,
                         std::shared_ptr<const PositionScores> operation) {
  const uint32_t columns = operation->columns();
  return graph.add(std::shared_ptr<const Operation>(std::move(operation)), {q, k}, {},
                   {std::move(name), RowKind::tokens, columns});
}

} // namespace pumice
