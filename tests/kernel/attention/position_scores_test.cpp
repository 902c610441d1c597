#include "kernel/attention/position_scores.h"

#include <cmath>

#include <doctest/doctest.h>

#include "kernel/inputs_step.h"
#include "kernel/products/weights.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// A layer's weights for `heads` heads of `dim` dimensions.
struct Weights {
  TestWeight positions, norm, norm_bias, query, query_bias, key, key_bias;

  Weights(uint32_t buckets, uint32_t hidden, uint32_t columns)
      : positions(TensorType::f32, buckets, hidden, 1), norm(TensorType::f32, hidden, 1, 2),
        norm_bias(TensorType::f32, hidden, 1, 3), query(TensorType::f16, columns, hidden, 4),
        query_bias(TensorType::f32, columns, 1, 5), key(TensorType::f16, columns, hidden, 6),
        key_bias(TensorType::f32, columns, 1, 7) {}

  PositionWeights view(bool normed) const {
    PositionWeights weights;
    weights.positions = positions.weight;
    if (normed) {
      weights.norm_weight = norm.weight;
      weights.norm_bias = norm_bias.weight;
      weights.norm_eps = 1e-7f;
    }
    weights.query = query.weight;
    weights.query_bias = query_bias.weight;
    weights.key = key.weight;
    weights.key_bias = key_bias.weight;
    return weights;
  }

  // Embedding `bucket`, normed or not.
  std::vector<double> position(uint32_t bucket, bool normed) const {
    const std::vector<float> stored = positions.decoded(bucket);
    std::vector<double> x(stored.begin(), stored.end());
    if (!normed) return x;
    double mean = 0, variance = 0;
    for (double v : x) mean += v / static_cast<double>(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    for (uint32_t i = 0; i < x.size(); ++i)
      x[i] = (x[i] - mean) / std::sqrt(variance + 1e-7) * norm.decoded(i)[0] + norm_bias.decoded(i)[0];
    return x;
  }
};

void check(const DeviceProfile& profile, uint32_t heads, uint32_t dim, uint32_t buckets, uint32_t rows,
           bool normed) {
  CAPTURE(heads);
  CAPTURE(dim);
  CAPTURE(buckets);
  CAPTURE(rows);
  const uint32_t columns = heads * dim, hidden = 40;
  const Weights weights(buckets, hidden, columns);
  const std::vector<float> q = random_values(size_t{rows + 1} * columns, 11),
                           k = random_values(size_t{rows + 1} * columns, 12);
  const double scale = 0.25;
  std::vector<double> expected(size_t{rows} * 2 * columns / dim * buckets);
  for (uint32_t side = 0; side < 2; ++side) {
    const TestWeight &matrix = side ? weights.query : weights.key,
                     &bias = side ? weights.query_bias : weights.key_bias;
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      const std::vector<double> x = weights.position(bucket, normed);
      for (uint32_t column = 0; column < columns; ++column) {
        const std::vector<float> row_weights = matrix.decoded(column);
        double projected = bias.decoded(column)[0];
        for (uint32_t i = 0; i < hidden; ++i) projected += row_weights[i] * x[i];
        for (uint32_t row = 0; row < rows; ++row) {
          const uint32_t at = (side * heads + column / dim) * buckets + bucket;
          expected[size_t{row} * 2 * heads * buckets + at] +=
              scale * projected * (side ? k : q)[size_t{row} * columns + column];
        }
      }
    }
  }
  Graph graph;
  const TensorId q_id = graph.add_tensor({"q", RowKind::tokens, columns}),
                 k_id = graph.add_tensor({"k", RowKind::tokens, columns});
  const TensorId out =
      position_scores(graph, "scores", q_id, k_id,
                      std::make_shared<const PositionScores>(weights.view(normed), heads, 0.25f));
  const ActivationRef result = blank_rows(rows + 2, 2 * heads * buckets, 32);
  run_graph(
      profile, graph, inputs_step({{rows}}, rows + 2), rows + 2,
      {{q_id, upload_rows(q, columns, 32, true)}, {k_id, upload_rows(k, columns, 0, true)}, {out, result}});
  check_rows(result, expected, 3e-6, 1e-2);
  TestGpu::get().clear();
}

} // namespace

TEST_CASE("position scores: heads, sizes and rows") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    check(profile, 1, 1, 2, 1, false);
    check(profile, 3, 24, 16, 9, true);
    check(profile, 2, 17, 130, 8, true);
    check(profile, 4, 16, 31, 7, false);
    check(profile, 2, 64, 16, 23, true);
  }
}
