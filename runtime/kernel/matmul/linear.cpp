#include "kernel/matmul/linear.h"

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul.h"
#include "kernel/weight_packing.h"

namespace pumice {

namespace {

uint32_t padded(uint32_t columns, uint32_t multiple) {
  return (columns + multiple - 1) / multiple * multiple;
}

} // namespace

uint32_t NormSplit::normed_at() const {
  return padded(columns, merged_columns);
}

uint32_t NormSplit::sums_at() const {
  return 2 * normed_at();
}

uint32_t NormSplit::row_columns() const {
  return sums_at() + padded(columns, 32) / 8;
}

std::string Linear::describe() const {
  std::string text;
  if (selected) text += "of selected rows ";
  if (norm_before) text += "after a norm ";
  if (matrices > 1 && !gated) text += fmt::format("{} matrices ", matrices);
  if (bias) text += "bias ";
  if (gated) text += "gated ";
  if (activation != Activation::none) text += fmt::format("{} ", to_string(activation));
  if (adapted) text += "left to its adapter ";
  if (adapter) text += fmt::format("adapter of rank {} {} ", adapter->rank, info(adapter->numbers).name);
  if (residual) text += "residual ";
  if (norm_after) text += "before a norm ";
  if (!text.empty()) text.pop_back();
  return text;
}

Result<std::vector<MatmulArgs>> Linear::args(Lowering& lowering, const Node& node) const {
  const std::span<const WeightId> weights(node.weights);
  PUMICE_TRY(PackedWeight packed, lowering.matrix(weights.first(matrices), gated));
  MatmulArgs args;
  args.x = lowering.tensor(node.inputs[0]);
  args.format = packed.format;
  if (weights.size() > matrices) {
    PUMICE_TRY(args.bias, lowering.vector(weights.subspan(matrices), gated));
  }
  if (norm_after && bias) { // they are apart where an adapter comes between, see plan/adapters.h
    for (WeightId each : weights.subspan(matrices)) PUMICE_CHECK(lowering.vector(each));
  }
  if (selected) args.selected_by = lowering.step_layout().details();
  if (norm_before) {
    args.row_scale = {norm_before->columns, norm_before->eps,
                      norm_before->sums_at() - norm_before->normed_at()};
  }
  if (norm_after) {
    args.next_norm = {bias ? norm_after->normed_at() : 0, norm_after->weight_offset, norm_after->normed_at(),
                      norm_after->sums_at()};
  }
  if (residual) args.residual = lowering.tensor(node.inputs[1]);
  if (adapter) {
    const ActivationRef h = lowering.tensor(node.inputs[residual ? 2 : 1]);
    args.adapter = {h, adapter->matrix, adapter->place_bytes, adapter->numbers, adapter->rank};
  }
  args.activation = adapted ? Activation::none : activation;
  args.gated = gated && !adapted;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  std::vector<MatmulArgs> products;
  for (const WeightSegment& segment : packed.segments) {
    products.push_back(args);
    products.back().weight = segment;
  }
  return products;
}

Status Linear::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(const std::vector<MatmulArgs> products, args(lowering, node));
  for (const MatmulArgs& product : products) PUMICE_CHECK(matmul(lowering, product));
  return {};
}

TensorId linear(Graph& graph, std::string name, TensorId x, WeightId weight, std::optional<WeightId> bias) {
  Linear operation;
  operation.bias = bias.has_value();
  std::vector<WeightId> weights = {weight};
  if (bias) weights.push_back(*bias);
  const uint32_t columns = static_cast<uint32_t>(graph.weight(weight).view.rows);
  return graph.add(operation, {x}, std::move(weights), {std::move(name), graph.tensor(x).rows, columns});
}

} // namespace pumice
