#include "kernel/linear.h"

#include <fmt/format.h>

#include "kernel/matmul.h"
#include "plan/lowering.h"

namespace pumice {

std::string Linear::describe() const {
  std::string text;
  if (matrices > 1 && !gated) text += fmt::format("{} matrices ", matrices);
  if (bias) text += "bias ";
  if (gated) text += "gated ";
  if (activation != Activation::none) text += fmt::format("{} ", to_string(activation));
  if (residual) text += "residual ";
  if (!text.empty()) text.pop_back();
  return text;
}

Status Linear::lower(Lowering& lowering, const Node& node) const {
  const std::span<const WeightId> weights(node.weights);
  PUMICE_TRY(PackedWeight packed, lowering.matrix(weights.first(matrices), gated));
  MatmulArgs args;
  args.x = lowering.tensor(node.inputs[0]);
  args.format = packed.format;
  if (bias) {
    PUMICE_TRY(args.bias, lowering.vector(weights.subspan(matrices, matrices), gated));
  }
  if (residual) args.residual = lowering.tensor(node.inputs[1]);
  args.activation = activation;
  args.gated = gated;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  for (const WeightSegment& segment : packed.segments) {
    args.weight = segment;
    PUMICE_CHECK(matmul(lowering, args));
  }
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
