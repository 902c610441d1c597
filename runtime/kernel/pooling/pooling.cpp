#include "kernel/pooling/pooling.h"

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/pooling/mean_rows.params.h"
#include "shaders/pooling/unit_length.params.h"

namespace pumice {

Status MeanRows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const uint32_t workgroup = lowering.profile().workgroup;
  Dispatch dispatch = row_launch(lowering, "mean_rows", MEAN_ROWS_RESULT, result, {largest});
  MeanRowsParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.capacity = lowering.step_capacity();
  dispatch.set_params(params);
  dispatch.bind(MEAN_ROWS_X, x.buffer, Access::read);
  dispatch.groups = {result.rows, (result.padded_columns() / 4 + workgroup - 1) / workgroup, 1};
  dispatch.flops = double{1} * x.rows * x.columns;
  dispatch.bytes = 4.0 * (double{1} * x.rows + result.rows) * x.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string PickRows::describe() const {
  if (rule == Rule::last) return "the last";
  if (rule == Rule::largest) return "of the largest token";
  if (rule == Rule::numbered) return fmt::format("number {}", token);
  return fmt::format("the first of token {}", token);
}

Status PickRows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  Dispatch dispatch =
      row_launch(lowering, "pick_rows", PICK_ROWS_RESULT, result, {static_cast<uint32_t>(rule)});
  PickRowsParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.capacity = lowering.step_capacity();
  params.token = token;
  dispatch.set_params(params);
  dispatch.bind(PICK_ROWS_X, x.buffer, Access::read);
  dispatch.groups = {result.rows, 1, 1};
  dispatch.bytes = 8.0 * result.rows * result.columns + 16.0 * x.rows;
  lowering.emit(std::move(dispatch));
  return {};
}

Status UnitLength::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  Dispatch dispatch = row_launch(lowering, "unit_length", UNIT_LENGTH_RESULT, result);
  UnitLengthParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.rows_kind = x.rows_kind;
  dispatch.set_params(params);
  dispatch.bind(UNIT_LENGTH_X, x.buffer, Access::read);
  dispatch.groups = {x.rows, 1, 1};
  dispatch.flops = 3.0 * x.rows * x.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId mean_rows(Graph& graph, std::string name, TensorId x) {
  return graph.add(MeanRows{}, {x}, {}, {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

TensorId largest_rows(Graph& graph, std::string name, TensorId x) {
  MeanRows operation;
  operation.largest = true;
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

TensorId pick_rows(Graph& graph, std::string name, TensorId x, const PickRows& operation) {
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

TensorId last_row(Graph& graph, std::string name, TensorId x) {
  return pick_rows(graph, std::move(name), x, {});
}

TensorId unit_length(Graph& graph, std::string name, TensorId x) {
  const Tensor& from = graph.tensor(x);
  return graph.add(UnitLength{}, {x}, {}, {std::move(name), from.rows, from.columns});
}

} // namespace pumice
