#include "kernel/image/image.h"

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/image/grid_positions.params.h"
#include "shaders/image/join_patches.params.h"
#include "shaders/image/lead_token.params.h"
#include "shaders/image/patches.params.h"

namespace pumice {

namespace {

Status check(const PatchShape& shape, const ActivationRef& pixels) {
  if (shape.patch_height == 0 || shape.patch_width == 0 || shape.height < shape.patch_height ||
      shape.width < shape.patch_width) {
    return Error{Code::invalid_argument,
                 fmt::format("a picture of {} x {} has no patches of {} x {}", shape.height, shape.width,
                             shape.patch_height, shape.patch_width)};
  }
  const uint64_t expected = uint64_t{shape.channels} * shape.height * shape.width;
  if (pixels.columns == expected) return {};
  return Error{Code::invalid_argument,
               fmt::format("a picture of {} x {} x {} has {} values, and the input has {} columns",
                           shape.channels, shape.height, shape.width, expected, pixels.columns)};
}

} // namespace

std::string Patches::describe() const {
  std::string text = fmt::format("{} x {} x {} by {} x {}", shape.channels, shape.height, shape.width,
                                 shape.patch_height, shape.patch_width);
  if (lead > 0) text += fmt::format(" after {} rows", lead);
  return text;
}

Status Patches::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef pixels = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check(shape, pixels));
  Dispatch dispatch = row_launch(lowering, "patches", PATCHES_RESULT, result);
  PatchesParams params = {};
  params.columns = result.columns;
  params.pixels_stride = pixels.stride;
  params.out_stride = result.stride;
  params.height = shape.height;
  params.width = shape.width;
  params.patch_height = shape.patch_height;
  params.patch_width = shape.patch_width;
  params.count = shape.count();
  params.lead = lead;
  dispatch.set_params(params);
  dispatch.bind(PATCHES_PIXELS, pixels.buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string LeadToken::describe() const {
  return row > 0 ? fmt::format("row {}", row) : "";
}

std::string PatchWindows::describe() const {
  return fmt::format("{} x {} by {} x {}, {}", height, width, window, window,
                     rule == Rule::joined ? "joined" : "averaged");
}

Status PatchWindows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const uint32_t area = window * window;
  if (window == 0 || count() == 0 || result.columns != (rule == Rule::joined ? area : 1) * x.columns) {
    return Error{
        Code::invalid_argument,
        fmt::format("a grid of {} x {} patches of {} columns has no windows of {} x {} with {} columns",
                    height, width, x.columns, window, window, result.columns)};
  }
  Dispatch dispatch =
      row_launch(lowering, "patch_windows", PATCH_WINDOWS_RESULT, result, {static_cast<uint32_t>(rule)});
  PatchWindowsParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.width = width;
  params.window = window;
  params.count = count();
  params.lead = lead;
  dispatch.set_params(params);
  dispatch.bind(PATCH_WINDOWS_X, x.buffer, Access::read);
  dispatch.bytes = 4.0 * x.rows * x.columns + 4.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string JoinPatches::describe() const {
  return fmt::format("{} rows{}", joined, rule == Rule::averaged ? ", averaged" : "");
}

Status JoinPatches::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  if (joined == 0 || result.columns != (rule == Rule::joined ? joined : 1) * x.columns) {
    return Error{Code::invalid_argument, fmt::format("{} rows of {} columns are not one row of {}", joined,
                                                     x.columns, result.columns)};
  }
  Dispatch dispatch =
      row_launch(lowering, "join_patches", JOIN_PATCHES_RESULT, result, {static_cast<uint32_t>(rule)});
  JoinPatchesParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.joined = joined;
  params.details = lowering.step_layout().details();
  dispatch.set_params(params);
  dispatch.bind(JOIN_PATCHES_X, x.buffer, Access::read);
  dispatch.bytes = 4.0 * x.rows * x.columns + 4.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string GridPositions::describe() const {
  if (rule == Rule::apart) return fmt::format("{0} across, {0} down", side);
  const char* how = rule == Rule::cubic ? ", cubic" : rule == Rule::before ? ", not interpolated" : "";
  return fmt::format("{0} x {0}{1}", side, how);
}

Status GridPositions::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const WeightView& view = lowering.graph().weight(node.weights[0]).view;
  const uint64_t lines = rule == Rule::apart ? 2 : side;
  if (side == 0 || view.rows != lines * side || view.columns != x.columns) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a table of {} rows of {} numbers does not have {} x {} positions of {}",
                             view.tensor->name, view.rows, view.columns, lines, side, x.columns)};
  }
  PUMICE_TRY(const BufferRef table, lowering.vector(node.weights[0]));
  Dispatch dispatch =
      row_launch(lowering, "grid_positions", GRID_POSITIONS_RESULT, result, {static_cast<uint32_t>(rule)});
  GridPositionsParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.side = side;
  params.details = lowering.step_layout().details();
  dispatch.set_params(params);
  dispatch.bind(GRID_POSITIONS_X, x.buffer, Access::read);
  dispatch.bind(GRID_POSITIONS_TABLE, table, Access::read);
  const double taps = rule == Rule::cubic ? 16 : rule == Rule::before ? 1 : 4;
  dispatch.bytes = 4 * (2 + taps) * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

Status LeadToken::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  if (const WeightView& view = lowering.graph().weight(node.weights[0]).view;
      view.rows * view.columns != x.columns) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a token of {} numbers cannot stand before rows of {}", view.tensor->name,
                             view.rows * view.columns, x.columns)};
  }
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  Dispatch dispatch = row_launch(lowering, "lead_token", LEAD_TOKEN_RESULT, result);
  LeadTokenParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.row = row;
  dispatch.set_params(params);
  dispatch.bind(LEAD_TOKEN_X, x.buffer, Access::read);
  dispatch.bind(LEAD_TOKEN_WEIGHT, weight, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId patches(Graph& graph, std::string name, TensorId pixels, const PatchShape& shape, uint32_t lead) {
  Patches operation;
  operation.shape = shape;
  operation.lead = lead;
  return graph.add(operation, {pixels}, {}, {std::move(name), RowKind::tokens, shape.columns()});
}

TensorId patch_windows(Graph& graph, std::string name, TensorId x, const PatchWindows& operation) {
  const bool joined = operation.rule == PatchWindows::Rule::joined;
  const uint32_t patches = joined ? operation.window * operation.window : 1;
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::tokens, patches * graph.tensor(x).columns});
}

TensorId join_patches(Graph& graph, std::string name, TensorId x, uint32_t joined, JoinPatches::Rule rule) {
  JoinPatches operation;
  operation.rule = rule;
  operation.joined = joined;
  const uint32_t rows = rule == JoinPatches::Rule::joined ? joined : 1;
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::tokens, rows * graph.tensor(x).columns});
}

TensorId grid_positions(Graph& graph, std::string name, TensorId x, WeightId table, uint32_t side,
                        GridPositions::Rule rule) {
  GridPositions operation;
  operation.rule = rule;
  operation.side = side;
  return graph.add(operation, {x}, {table}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId lead_token(Graph& graph, std::string name, TensorId x, WeightId token, uint32_t row) {
  LeadToken operation;
  operation.row = row;
  return graph.add(operation, {x}, {token}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

} // namespace pumice
