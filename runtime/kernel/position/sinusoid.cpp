#include "kernel/position/sinusoid.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/position/position.h"
#include "kernel/row_kernel.h"

namespace pumice {

std::string SinusoidalPositions::describe() const {
  return fmt::format("{}{}{}", sinusoids.layout == SinusoidLayout::interleaved ? "interleaved" : "halves",
                     sinusoids.spacing == SinusoidSpacing::closed ? ", closed" : "",
                     sinusoids.first ? fmt::format(", from {} on", sinusoids.first) : "");
}

Status SinusoidalPositions::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const uint32_t divisor = sinusoids.spacing == SinusoidSpacing::closed ? x.columns - 2 : x.columns;
  std::vector<double> frequencies((x.columns + 1) / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / divisor);
  }
  PUMICE_TRY(const BufferRef table, lowering.constants(fmt::format("sinusoids {} {}", x.columns, divisor),
                                                       rotary_table(frequencies)));
  Dispatch dispatch =
      row_launch(lowering, "sinusoid", SINUSOID_RESULT, result, {static_cast<uint32_t>(sinusoids.layout)});
  SinusoidParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.first = sinusoids.first;
  dispatch.set_params(params);
  dispatch.bind(SINUSOID_X, x.buffer, Access::read);
  dispatch.bind(SINUSOID_TABLE, table, Access::read);
  dispatch.flops = 20.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId sinusoidal_positions(Graph& graph, std::string name, TensorId x, const Sinusoids& sinusoids) {
  SinusoidalPositions operation;
  operation.sinusoids = sinusoids;
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

} // namespace pumice
