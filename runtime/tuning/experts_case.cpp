#include "tuning/experts_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "kernel/experts/experts.h"
#include "tuning/random_weight.h"

namespace pumice {

namespace {

using Matrix = std::vector<float>; // rows one after the other

struct ExpertMatrices {
  std::vector<Matrix> gate, up, down; // one for each expert
};

std::vector<double> product(const Matrix& matrix, std::span<const double> x) {
  std::vector<double> result(matrix.size() / x.size());
  for (size_t row = 0; row < result.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) result[row] += double{matrix[row * x.size() + i]} * x[i];
  }
  return result;
}

// The numbers of the experts with the largest of a row's logits.
std::vector<uint32_t> chosen(const ExpertsCase& c, std::span<const float> logits) {
  std::vector<uint32_t> order(c.count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  order.resize(c.used);
  return order;
}

std::vector<double> expected_row(const ExpertsCase& c, std::span<const float> row,
                                 const ExpertMatrices& matrices) {
  const std::vector<double> x(row.begin(), row.end());
  const std::vector<uint32_t> experts = chosen(c, row);
  double all = 0;
  for (uint32_t expert : experts) all += std::exp(x[expert]);
  std::vector<double> result(c.columns);
  for (uint32_t expert : experts) {
    std::vector<double> inner = product(matrices.gate[expert], x);
    const std::vector<double> up = product(matrices.up[expert], x);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] = std::max(inner[i], 0.0) * up[i];
    const std::vector<double> part = product(matrices.down[expert], inner);
    for (size_t i = 0; i < result.size(); ++i) result[i] += std::exp(x[expert]) / all * part[i];
  }
  return result;
}

} // namespace

ExpertsCase experts_case(TensorType type, uint32_t block_slots) {
  ExpertsCase c;
  c.type = type;
  c.hidden = std::max(c.hidden, info(type).block_size);
  c.columns = std::max(c.columns, info(type).block_size);
  // routed_block_slots() goes by the slots that an expert has on average: two of three rows here.
  c.rows = block_slots > 8 ? 49 : block_slots > 4 ? 13 : block_slots > 1 ? 7 : 3;
  return c;
}

std::string ExpertsCase::name() const {
  return fmt::format("{}, {} row{}, {} of {} experts of {} x {}", info(type).name, rows, rows == 1 ? "" : "s",
                     used, count, hidden, columns);
}

std::unique_ptr<KernelCase> ExpertsCase::make() const {
  auto made = std::make_unique<KernelCase>();
  made->rows = rows;
  made->allowed = 5e-5; // of two products, one after the other
  made->allowed_rounded = 0.06;
  ExpertWeights weights;
  ExpertMatrices matrices;
  uint32_t seed = 20;
  const auto add = [&](const char* name, uint32_t results, uint32_t from, std::vector<WeightId>& ids,
                       std::vector<Matrix>& decoded) {
    for (uint32_t expert = 0; expert < count; ++expert) {
      std::vector<std::byte> bytes = random_weight(type, results, from, seed++);
      Matrix& matrix = decoded.emplace_back(size_t{results} * from);
      for (uint32_t row = 0; row < results; ++row) {
        decode_row(type, bytes.data() + row * row_bytes(type, from),
                   std::span(matrix).subspan(size_t{row} * from, from));
      }
      ids.push_back(
          made->add_weight(fmt::format("{} {}", name, expert), type, {results, from}, std::move(bytes)));
    }
  };
  add("gate", hidden, columns, weights.gate, matrices.gate);
  add("up", hidden, columns, weights.up, matrices.up);
  add("down", columns, hidden, weights.down, matrices.down);

  std::mt19937 random(19);
  made->input.resize(size_t{rows} * columns);
  for (float& value : made->input) value = random_value(random);
  const TensorId x = made->graph.input("x", RowKind::tokens, columns);
  const TensorId logits = made->graph.add_tensor({"router logits", RowKind::tokens, count});
  made->graph.make_view(logits, {x, 0});
  Experts operation;
  operation.count = count;
  operation.routing.used = used;
  operation.activation.kind = Activation::relu;
  made->graph.make_readable(experts(made->graph, "result", x, logits, weights, operation), "result");
  made->expected = [c = *this, x_values = std::span<const float>(made->input), matrices] {
    std::vector<float> all;
    for (uint32_t row = 0; row < c.rows; ++row) {
      const std::vector<double> values =
          expected_row(c, x_values.subspan(size_t{row} * c.columns, c.columns), matrices);
      for (double value : values) all.push_back(static_cast<float>(value));
    }
    return all;
  };
  return made;
}

} // namespace pumice
