#include "tuning/product_case.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "kernel/matmul/linear.h"
#include "tuning/random_weight.h"

namespace pumice {

namespace {

using Matrix = std::vector<float>; // rows one after the other

Matrix decoded(const ProductCase& c, std::span<const std::byte> data) {
  Matrix matrix(size_t{c.results} * c.columns);
  const size_t bytes = row_bytes(c.type, c.columns);
  for (uint32_t row = 0; row < c.results; ++row) {
    decode_row(c.type, data.data() + row * bytes, std::span(matrix).subspan(row * c.columns, c.columns));
  }
  return matrix;
}

std::vector<std::byte> made_weight(const ProductCase& c, uint32_t seed) {
  if (c.kind != ProductCase::Kind::long_sums) return random_weight(c.type, c.results, c.columns, seed);
  const std::vector<std::byte> row = random_weight(c.type, 1, c.columns, seed);
  std::vector<std::byte> all;
  for (uint32_t i = 0; i < c.results; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<float> made_input(const ProductCase& c, const Matrix& matrix) {
  std::mt19937 random(2);
  std::vector<float> x(size_t{c.rows} * c.columns);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = random_value(random);
    if (c.kind == ProductCase::Kind::long_sums)
      x[i] = std::copysign(0.5f + std::abs(x[i]) / 2, matrix[i % c.columns]);
  }
  return x;
}

double sum(std::span<const float> x, std::span<const float> weight) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += double{x[i]} * weight[i];
  return total;
}

// `other`: the gated matrix; `bias`: one for each result. Empty where the case has none.
std::vector<float> expected_of(const ProductCase& c, std::span<const float> x, const Matrix& matrix,
                               const Matrix& other, const std::vector<float>& bias) {
  std::vector<float> all;
  for (uint32_t row = 0; row < c.rows; ++row) {
    const std::span<const float> in = x.subspan(size_t{row} * c.columns, c.columns);
    std::vector<float> out;
    for (size_t i = 0; i < c.results; ++i) {
      double value = sum(in, std::span(matrix).subspan(i * c.columns, c.columns));
      if (!other.empty())
        value = std::max(value, 0.0) * sum(in, std::span(other).subspan(i * c.columns, c.columns));
      if (!bias.empty()) value += bias[i];
      if (c.kind == ProductCase::Kind::bias_residual) value += in[i];
      out.push_back(static_cast<float>(value));
    }
    for (uint32_t i = 0; i < c.copies; ++i) all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

} // namespace

std::string ProductCase::name() const {
  constexpr const char* kinds[] = {"", ", long sums", ", gated", ", bias", ", bias and residual"};
  return fmt::format("{}, {} row{}, {} x {}{}", info(type).name, rows, rows == 1 ? "" : "s",
                     uint64_t{results} * copies, columns, kinds[static_cast<int>(kind)]);
}

std::unique_ptr<KernelCase> ProductCase::make() const {
  auto made = std::make_unique<KernelCase>();
  made->rows = rows;
  made->allowed = 2e-5;
  // Rounding errors have either sign, so that they cancel in long sums.
  made->allowed_rounded = kind == Kind::long_sums ? 1e-3 : 0.03;
  const std::vector<uint64_t> shape = {results, columns};
  const WeightId weight = made->add_weight("weight", type, shape, made_weight(*this, 1));
  const Matrix matrix = decoded(*this, made->data[0]);
  Matrix other;
  Linear operation;
  operation.matrices = copies;
  const TensorId x = made->graph.input("x", RowKind::tokens, columns);
  std::vector<TensorId> inputs = {x};
  std::vector<WeightId> weights(copies, weight);
  std::vector<float> bias;
  if (kind == Kind::gated) {
    operation.gated = true;
    operation.matrices = 2;
    operation.activation = Activation::relu;
    weights.push_back(made->add_weight("up", type, shape, made_weight(*this, 3)));
    other = decoded(*this, made->data[1]);
  } else if (kind == Kind::bias || kind == Kind::bias_residual) {
    operation.bias = true;
    operation.residual = kind == Kind::bias_residual;
    std::vector<std::byte> bytes = random_weight(TensorType::f32, 1, results, 4);
    bias.resize(results);
    decode_row(TensorType::f32, bytes.data(), bias);
    weights.push_back(made->add_weight("bias", TensorType::f32, {results}, std::move(bytes)));
    if (operation.residual) inputs.push_back(x);
  }
  const TensorId result = made->graph.add(operation, std::move(inputs), std::move(weights),
                                          {"result", RowKind::tokens, results * copies});
  made->graph.make_readable(result, "result");

  made->input = made_input(*this, matrix);
  made->expected = [c = *this, x_values = std::span<const float>(made->input), matrix, other, bias] {
    return expected_of(c, x_values, matrix, other, bias);
  };
  return made;
}

} // namespace pumice
