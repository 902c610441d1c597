#include "tuning/norm_case.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "tuning/random_weight.h"

namespace pumice {

namespace {

constexpr float norm_eps = 1e-5f, norm_offset = 0.25f;

std::vector<float> normed(const NormCase& c, std::span<const float> row, const std::vector<float>& weight,
                          const std::vector<float>& bias) {
  double mean = 0, squares = 0;
  for (float value : row) mean += value;
  mean = c.kind == NormKind::layer ? mean / c.columns : 0;
  for (float value : row) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / c.columns + norm_eps);
  const double offset = c.kind == NormKind::rms ? norm_offset : 0;
  std::vector<float> result;
  for (uint32_t i = 0; i < c.columns; ++i) {
    const double value = (row[i] - mean) * scale * (weight[i] + offset) + (c.bias ? bias[i] : 0);
    result.push_back(static_cast<float>(value));
  }
  return result;
}

} // namespace

std::string NormCase::name() const {
  return fmt::format("{} norm{}, {} row{} of {}", kind == NormKind::rms ? "rms" : "layer",
                     bias ? " with a bias" : "", rows, rows == 1 ? "" : "s", columns);
}

std::unique_ptr<KernelCase> NormCase::make() const {
  auto made = std::make_unique<KernelCase>();
  made->rows = rows;
  made->allowed = made->allowed_rounded = 2e-5;
  std::mt19937 random(9);
  made->input.resize(size_t{rows} * columns);
  for (float& value : made->input) value = random_value(random) + 0.5f;
  std::vector<float> weight, offsets;
  const TensorId x = made->graph.input("x", RowKind::tokens, columns);
  const WeightId weight_id = made->add_vector("weight", columns, 10, weight);
  std::optional<WeightId> bias_id;
  if (bias) bias_id = made->add_vector("bias", columns, 11, offsets);
  const TensorId result = kind == NormKind::rms
                              ? rms_norm(made->graph, "result", x, weight_id, norm_eps, norm_offset)
                              : layer_norm(made->graph, "result", x, weight_id, bias_id, norm_eps);
  made->graph.make_readable(result, "result");
  made->expected = [c = *this, x_values = std::span<const float>(made->input), weight, offsets] {
    std::vector<float> all;
    for (uint32_t row = 0; row < c.rows; ++row) {
      const std::vector<float> values =
          normed(c, x_values.subspan(size_t{row} * c.columns, c.columns), weight, offsets);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  return made;
}

} // namespace pumice
