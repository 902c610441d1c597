// Products of each head by a matrix of its own, and columns put together head by head.
#include "kernel/heads/heads.h"
#include "kernel/products/weights.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

struct HeadCase {
  TensorType type = TensorType::f32;
  uint32_t heads = 1, head_dim = 32, first = 0, columns = 32, rows = 32; // rows of a matrix
  uint32_t bucket = 1, count = 1;                                        // rows of the step
  bool shared = false;                                                   // one matrix
};

void check_products(const DeviceProfile& profile, const HeadCase& c) {
  CAPTURE(profile.cpu8);
  CAPTURE(info(c.type).name);
  CAPTURE(c.heads);
  CAPTURE(c.head_dim);
  CAPTURE(c.columns);
  CAPTURE(c.rows);
  CAPTURE(c.bucket);
  CAPTURE(c.count);
  const TestWeight matrices(c.type, c.heads * c.rows, c.columns, 21);
  const uint32_t x_columns = c.heads * c.head_dim, out_columns = c.heads * c.rows;
  const std::vector<float> x = random_values(size_t{c.bucket} * x_columns, 22);

  Graph graph;
  const TensorId x_id = graph.add_tensor({"x", RowKind::tokens, x_columns});
  std::vector<WeightId> ids;
  for (uint32_t head = 0; head < c.heads; ++head)
    ids.push_back(graph.weight(matrices.weight.slice(head * c.rows, c.rows), "attention"));
  const HeadColumns part = {c.head_dim, c.first, c.columns};
  const TensorId out = c.shared ? shared_head_linear(graph, "out", x_id, part, c.heads, ids[0])
                                : head_linear(graph, "out", x_id, part, ids);
  REQUIRE(graph.tensor(out).columns == out_columns);
  const ActivationRef result = blank_rows(c.bucket, out_columns);
  run_graph(profile, graph, TestGpu::get().step(c.count), c.bucket,
            {{x_id, upload_rows(x, x_columns)}, {out, result}});

  std::vector<double> expected;
  for (uint32_t row = 0; row < c.count; ++row) {
    for (uint32_t i = 0; i < out_columns; ++i) {
      const std::vector<float> matrix_row = matrices.decoded(c.shared ? i % c.rows : i);
      const size_t at = size_t{row} * x_columns + i / c.rows * c.head_dim + c.first;
      double sum = 0;
      for (uint32_t k = 0; k < c.columns; ++k) sum += double{matrix_row[k]} * x[at + k];
      expected.push_back(sum);
    }
  }
  check_rows(result, expected, 3e-6, 0.1);
  TestGpu::get().clear();
}

} // namespace

TEST_CASE("a product of each head by its own matrix") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {1u, 3u, 17u, 65u}) {
      HeadCase c;
      c.bucket = c.count = count;
      for (const auto& [heads, head_dim, first, columns, rows] : {std::array{4u, 24u, 0u, 16u, 32u},
                                                                  {4u, 40u, 8u, 32u, 16u},
                                                                  {1u, 7u, 1u, 5u, 3u},
                                                                  {5u, 33u, 1u, 31u, 35u},
                                                                  {16u, 192u, 0u, 128u, 64u},
                                                                  {3u, 576u, 64u, 512u, 128u}}) {
        c.heads = heads;
        c.head_dim = head_dim;
        c.first = first;
        c.columns = columns;
        c.rows = rows;
        check_products(profile, c);
      }
    }
    for (TensorType type : {TensorType::f16, TensorType::q8_0, TensorType::q4_0})
      check_products(profile, {type, 4, 192, 0, 128, 64, 9, 9});
    check_products(profile, {TensorType::q4_k, 2, 576, 64, 512, 128, 2, 2});
    for (uint32_t count : {0u, 1u, 16u})
      check_products(profile, {TensorType::f32, 4, 96, 0, 64, 32, 17, count});
  }
}

TEST_CASE("a product of each head by one matrix") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {1u, 3u, 17u}) {
      check_products(profile, {TensorType::f32, 4, 24, 0, 16, 32, count, count, true});
      check_products(profile, {TensorType::f32, 16, 96, 32, 64, 40, count + 2, count, true});
    }
    check_products(profile, {TensorType::q8_0, 4, 64, 0, 64, 64, 9, 9, true});
  }
}

TEST_CASE("columns of two tensors, head by head") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& sizes :
         {std::array{4u, 8u, 32u}, {1u, 64u, 512u}, {5u, 1u, 3u}, {3u, 7u, 40u}, {2u, 5u, 0u}}) {
      const uint32_t heads = sizes[0], first = sizes[1], second = sizes[2];
      CAPTURE(heads);
      CAPTURE(first);
      CAPTURE(second);
      constexpr uint32_t rows = 3, before = 2; // columns of a head before the first tensor's that are copied
      const uint32_t a_dim = before + first, b_dim = second;
      const std::vector<float> a = random_values(size_t{rows} * heads * a_dim, 31);
      const std::vector<float> b = random_values(size_t{rows} * std::max(b_dim, 1u), 32);
      Graph graph;
      const TensorId a_id = graph.add_tensor({"a", RowKind::tokens, heads * a_dim});
      const TensorId b_id = graph.add_tensor({"b", RowKind::tokens, std::max(b_dim, 1u)});
      // All heads have the same columns of the second.
      const TensorId out =
          join_heads(graph, "out", a_id, {a_dim, before, first}, b_id, {0, 0, second}, heads);
      const ActivationRef result = blank_rows(rows, heads * (first + second));
      run_graph(profile, graph, TestGpu::get().step(rows), rows,
                {{a_id, upload_rows(a, heads * a_dim, 32)},
                 {b_id, upload_rows(b, std::max(b_dim, 1u), 64)},
                 {out, result}});
      std::vector<double> expected;
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t head = 0; head < heads; ++head) {
          for (uint32_t d = 0; d < first; ++d)
            expected.push_back(a[(size_t{row} * heads + head) * a_dim + before + d]);
          for (uint32_t d = 0; d < second; ++d) expected.push_back(b[size_t{row} * b_dim + d]);
        }
      }
      check_rows(result, expected, 0);
      TestGpu::get().clear();
    }
  }
}
