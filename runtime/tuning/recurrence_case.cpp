#include "tuning/recurrence_case.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/recurrence/recurrence.h"
#include "kernel/weight_packing.h"
#include "tuning/random_weight.h"

namespace pumice {

namespace {

// The input's row holds what the operation reads, each part at a multiple of merged_columns.
class RecurrenceRow {
public:
  explicit RecurrenceRow(const RecurrenceCase& c) {
    const uint32_t shared = c.groups * c.size, values = c.heads * c.head_dim;
    using enum RecurrenceCase::Kind;
    // Query, key, value, decays and rates; or x, b, c and steps.
    counts_ = c.kind == delta_rule ? std::vector<uint32_t>{shared, shared, values, c.heads, c.heads}
                                   : std::vector<uint32_t>{values, shared, shared, c.heads};
    for (const uint32_t count : counts_) {
      begins_.push_back(columns_);
      columns_ += static_cast<uint32_t>(align(count, merged_columns));
    }
  }

  uint32_t columns() const { return columns_; }
  std::vector<TensorId> add_views(Graph& graph, TensorId row) const {
    std::vector<TensorId> views;
    for (size_t i = 0; i < counts_.size(); ++i) {
      views.push_back(
          graph.add_tensor({fmt::format("part {}", i), RowKind::tokens, counts_[i], View{row, begins_[i]}}));
    }
    return views;
  }
  std::vector<std::span<const float>> parts(std::span<const float> row) const {
    std::vector<std::span<const float>> parts;
    for (size_t i = 0; i < counts_.size(); ++i) parts.push_back(row.subspan(begins_[i], counts_[i]));
    return parts;
  }

private:
  std::vector<uint32_t> counts_, begins_;
  uint32_t columns_ = 0;
};

// One number of each head, or several, by what it is: biases, logarithms of decays, what skips the scan.
using HeadNumbers = std::vector<std::vector<float>>;

double softplus_in_64_bits(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

std::vector<double> unit_vector(std::span<const float> from) {
  double squares = 1e-6; // shaders/recurrence/unit_length.glsl
  for (const float value : from) squares += double{value} * value;
  std::vector<double> unit;
  for (const float value : from) unit.push_back(value / std::sqrt(squares));
  return unit;
}

// Advances a channel's state by a row, and returns the row's result.
double scan_row(const RecurrenceCase& c, const std::vector<std::span<const float>>& in,
                const HeadNumbers& weights, uint32_t channel, std::span<double> state) {
  const uint32_t head = channel / c.head_dim, first = head / (c.heads / c.groups) * c.size;
  const double step = softplus_in_64_bits(double{in[3][head]} + weights[0][head]);
  double sum = double{weights[2][head]} * in[0][channel];
  for (uint32_t n = 0; n < c.size; ++n) {
    const double keep = std::exp(-std::exp(double{weights[1][c.wide ? head * c.size + n : head]}) * step);
    state[n] = state[n] * keep + step * in[0][channel] * in[1][first + n];
    sum += state[n] * in[2][first + n];
  }
  return sum;
}

double delta_row(const RecurrenceCase& c, const std::vector<std::span<const float>>& in,
                 const HeadNumbers& weights, uint32_t channel, std::span<double> state) {
  const uint32_t head = channel / c.head_dim, first = head / (c.heads / c.groups) * c.size;
  const std::vector<double> query = unit_vector(in[0].subspan(first, c.size)),
                            key = unit_vector(in[1].subspan(first, c.size));
  const double keep = std::exp(-std::exp(double{weights[1][head]}) *
                               softplus_in_64_bits(double{in[3][head]} + weights[0][head]));
  const double rate = 1 / (1 + std::exp(-double{in[4][head]}));
  double known = 0, sum = 0;
  for (uint32_t n = 0; n < c.size; ++n) known += (state[n] *= keep) * key[n];
  const double change = rate * (in[2][channel] - known);
  for (uint32_t n = 0; n < c.size; ++n) sum += (state[n] += key[n] * change) * query[n];
  return sum / std::sqrt(double{1} * c.size);
}

std::vector<float> expected_rows(const RecurrenceCase& c, std::span<const float> input,
                                 const HeadNumbers& weights) {
  const RecurrenceRow row(c);
  const uint32_t channels = c.heads * c.head_dim;
  std::vector<double> states(size_t{channels} * c.size);
  std::vector<float> results;
  for (uint32_t at = 0; at < c.past + c.rows; ++at) {
    const auto in = row.parts(input.subspan(size_t{at} * row.columns(), row.columns()));
    for (uint32_t channel = 0; channel < channels; ++channel) {
      const auto state = std::span(states).subspan(size_t{channel} * c.size, c.size);
      const double result = c.kind == RecurrenceCase::Kind::delta_rule
                                ? delta_row(c, in, weights, channel, state)
                                : scan_row(c, in, weights, channel, state);
      if (at >= c.past) results.push_back(static_cast<float>(result));
    }
  }
  return results;
}

uint32_t add_delta_rule(const RecurrenceCase& c, KernelCase& made, const std::vector<TensorId>& in,
                        const std::vector<WeightId>& weights) {
  DeltaRule operation;
  operation.key_heads = c.groups;
  operation.key_dim = c.size;
  operation.value_heads = c.heads;
  operation.value_dim = c.head_dim;
  made.graph.make_readable(delta_rule(made.graph, "result",
                                      {in[0], in[1], in[2], in[3], in[4], weights[0], weights[1]}, operation),
                           "result");
  return operation.state_floats();
}

uint32_t add_selective_scan(const RecurrenceCase& c, KernelCase& made, const std::vector<TensorId>& in,
                            const std::vector<WeightId>& weights) {
  SelectiveScan operation;
  operation.heads = c.heads;
  operation.head_dim = c.head_dim;
  operation.groups = c.groups;
  operation.size = c.size;
  operation.wide = c.wide;
  made.graph.make_readable(selective_scan(made.graph, "result",
                                          {in[0], in[1], in[2], in[3], weights[0], weights[1], weights[2]},
                                          operation),
                           "result");
  return operation.state_floats();
}

} // namespace

std::string RecurrenceCase::name() const {
  return fmt::format("{} row{} at {}, {} head{} of {}, {} state{} of {}{}", rows, rows == 1 ? "" : "s", past,
                     heads, heads == 1 ? "" : "s", head_dim, groups, groups == 1 ? "" : "s", size,
                     wide ? ", wide" : "");
}

std::unique_ptr<KernelCase> RecurrenceCase::make() const {
  auto made = std::make_unique<KernelCase>();
  made->past = past;
  made->rows = rows;
  made->allowed = made->allowed_rounded = 2e-5;
  const RecurrenceRow row(*this);
  std::mt19937 random(31);
  made->input.resize(size_t{past + rows} * row.columns());
  for (float& value : made->input) value = random_value(random);
  const TensorId x = made->graph.input("x", RowKind::tokens, row.columns());
  const std::vector<TensorId> in = row.add_views(made->graph, x);
  HeadNumbers numbers;
  std::vector<WeightId> weights;
  const bool delta = kind == Kind::delta_rule;
  for (uint32_t i = 0; i < (delta ? 2u : 3u); ++i) {
    const uint32_t count = wide && i == 1 ? heads * size : heads;
    weights.push_back(made->add_vector(fmt::format("weight {}", i), count, 32 + i, numbers.emplace_back()));
  }
  StateLayout layout;
  layout.floats =
      delta ? add_delta_rule(*this, *made, in, weights) : add_selective_scan(*this, *made, in, weights);
  made->states = {layout};
  made->expected = [c = *this, input = std::span<const float>(made->input), numbers] {
    return expected_rows(c, input, numbers);
  };
  return made;
}

} // namespace pumice
