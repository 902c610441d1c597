#include "kernel/matmul/linear.h"

#include <doctest/doctest.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/norm/norm.h"
#include "kernel/norm_reference.h"
#include "kernel/products/matmul_reference.h"
#include "kernel/products/weights.h"
#include "kernel/run_graph.h"
#include "plan/fusion.h"
#include "support/in_turn.h"

using namespace pumice;

namespace {

// residual + product, a norm of that, and a product of some or all of its rows.
struct Case {
  TensorType type = TensorType::f32;
  uint32_t k = 64; // of x
  uint32_t n = 32; // that are normed
  uint32_t rows = 1;
  bool bias = false;
  bool selected = false;   // every second row
  bool all_wanted = false; // the sums, of all rows all the same
};

constexpr float eps = 1e-5f;
constexpr float weight_offset = 0.5f;

class Block {
public:
  Block(const DeviceProfile& profile, const Case& c)
      : profile_(profile), c_(c), first_(c.type, c.n, c.k, 1), second_(c.type, 40, c.n, 2),
        norm_(TensorType::f32, 1, c.n, 3), bias_(TensorType::f32, 1, c.n, 4),
        x_(random_values(size_t{c.rows} * c.k, 5)), residual_(random_values(size_t{c.rows} * c.n, 6, 3)) {}

  void check() {
    TestGpu& gpu = TestGpu::get();
    build();
    REQUIRE(graph_.nodes().size() == (c_.all_wanted ? 3 : 2));
    const uint32_t outputs = c_.selected ? (c_.rows + 1) / 2 : c_.rows;
    const BufferRef step = c_.selected ? selecting_step() : gpu.step(c_.rows);
    const TensorId base = graph_.nodes()[0].output;
    const uint32_t result_kind = c_.selected ? ROWS_OUTPUTS : ROWS_TOKENS;
    const bool only_selected = graph_.tensor(base).rows == RowKind::outputs;
    CHECK(only_selected == (c_.selected && !c_.all_wanted));
    const ActivationRef parts = only_selected
                                    ? blank_rows(outputs, graph_.tensor(base).columns, 0, ROWS_OUTPUTS)
                                    : blank_rows(c_.rows, graph_.tensor(base).columns);
    const ActivationRef result = blank_rows(outputs, 40, 0, result_kind);
    const TensorId normed = graph_.nodes()[1].inputs[0];
    std::vector<std::pair<TensorId, ActivationRef>> places = {
        {x_id_, upload_rows(x_, c_.k)},
        {residual_id_, upload_rows(residual_, c_.n, 32)},
        {base, parts},
        {sum_id_, part(parts, 0)},
        {normed, part(parts, graph_.tensor(normed).view->first_column)},
        {graph_.nodes()[1].output, result}};
    if (c_.all_wanted) places.emplace_back(scaled_id_, blank_rows(c_.rows, c_.n));
    run_graph(profile_, graph_, step, c_.rows, places);
    const std::vector<float> sum = reference();
    check_columns(parts, sum, only_selected);
    check_rows(result, expected(sum), 1e-5, 0.1);
    gpu.clear();
  }

private:
  WeightId weight(const TestWeight& weight) { return graph_.weight(weight.weight, "test"); }

  void build() {
    x_id_ = graph_.add_tensor({"x", RowKind::tokens, c_.k, {}, false});
    residual_id_ = graph_.add_tensor({"residual", RowKind::tokens, c_.n, {}, false});
    std::optional<WeightId> bias;
    if (c_.bias) bias = weight(bias_);
    const TensorId product = linear(graph_, "product", x_id_, weight(first_), bias);
    const TensorId sum = add(graph_, "sum", product, residual_id_);
    sum_id_ = sum;
    const TensorId normed = rms_norm(graph_, "normed", sum, weight(norm_), eps, weight_offset);
    const TensorId rows = c_.selected ? select_rows(graph_, "selected", normed) : normed;
    linear(graph_, "result", rows, weight(second_));
    if (c_.all_wanted) scaled_id_ = scale(graph_, "scaled", sum, 2);
    fuse(graph_);
  }

  // Outputs in another order than the rows: the last row first.
  uint32_t output_row(uint32_t output) const { return c_.rows - 1 - 2 * output; }
  BufferRef selecting_step() const {
    std::vector<uint32_t> block(size_t{4} * (1 + 2 * c_.rows));
    block[ROWS_TOKENS] = c_.rows;
    block[ROWS_OUTPUTS] = (c_.rows + 1) / 2;
    for (uint32_t i = 0; i < block[ROWS_OUTPUTS]; ++i) block[4 * (1 + c_.rows + i)] = output_row(i);
    return TestGpu::get().upload(block);
  }

  static ActivationRef part(ActivationRef all, uint32_t first) {
    all.buffer = all.buffer.at(uint64_t{first} * 4, all.buffer.bytes - uint64_t{first} * 4);
    all.columns -= first;
    return all;
  }

  std::vector<float> reference() const {
    std::vector<double> sum = matmul_reference(x_, first_);
    const std::vector<float> bias = bias_.decoded(0);
    std::vector<float> result;
    for (size_t i = 0; i < sum.size(); ++i) {
      result.push_back(static_cast<float>(sum[i] + residual_[i] + (c_.bias ? bias[i % c_.n] : 0)));
    }
    return result;
  }

  // What the residual stream goes on with is the first part of each row.
  void check_columns(const ActivationRef& parts, const std::vector<float>& sum, bool only_selected) const {
    const std::vector<float> got = TestGpu::get().read<float>(parts.buffer);
    double worst = 0;
    for (uint32_t row = 0; row < parts.rows; ++row) {
      const size_t from = size_t{only_selected ? output_row(row) : row} * c_.n;
      for (uint32_t i = 0; i < c_.n; ++i) {
        const double difference = std::abs(got[size_t{row} * parts.stride + i] - double{sum[from + i]});
        if (!(difference <= worst)) worst = difference;
      }
    }
    CHECK(worst < 1e-4);
  }

  std::vector<double> expected(const std::vector<float>& sum) const {
    std::vector<float> normed;
    const std::vector<float> norm_weight = norm_.decoded(0);
    for (uint32_t i = 0; i < (c_.selected ? (c_.rows + 1) / 2 : c_.rows); ++i) {
      const uint32_t row = c_.selected ? output_row(i) : i;
      const std::vector<double> y = rms_norm_reference(std::span(sum).subspan(size_t{row} * c_.n, c_.n),
                                                       norm_weight, eps, weight_offset);
      normed.insert(normed.end(), y.begin(), y.end());
    }
    return matmul_reference(normed, second_);
  }

  const DeviceProfile profile_;
  const Case c_;
  const TestWeight first_, second_, norm_, bias_;
  const std::vector<float> x_, residual_;
  Graph graph_;
  TensorId x_id_ = 0, residual_id_ = 0, sum_id_ = 0, scaled_id_ = 0;
};

} // namespace

TEST_CASE("a norm between products is a part of them") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    CAPTURE(profile.cpu8);
    CAPTURE(profile.forced);
    // Each use with one row, several and many, in a type; a long run has each in both.
    const Case uses[] = {{.n = 96, .bias = true},
                         {.n = 256, .selected = true},
                         {.n = 256, .selected = true, .all_wanted = true}};
    for (const auto& [use, type] : in_turn(uses, std::array{TensorType::f16, TensorType::q8_0})) {
      for (uint32_t rows : {1u, 5u, 33u}) {
        CAPTURE(rows);
        Case c = use;
        c.type = type;
        c.rows = rows;
        c.bias = use.bias && type == TensorType::f16;
        Block(profile, c).check();
      }
    }
    // Columns that end within a tile.
    for (uint32_t n : {1u, 7u, 33u, 100u}) {
      CAPTURE(n);
      Block(profile, {.n = n, .rows = 9, .selected = true}).check();
    }
  }
}
