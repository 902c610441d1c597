#include "kernel/cells/cells.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/cells/cell_attention.params.h"
#include "shaders/cells/cell_patches.params.h"
#include "shaders/cells/cell_sums.params.h"

namespace pumice {

namespace {

std::string describe_cells(const CellLayout& cells) {
  if (cells.whole) return fmt::format("{} x {}", cells.height, cells.width);
  return fmt::format("{} x {} in cells of {} x {}", cells.height, cells.width, cells.side, cells.side);
}

// A pixel's channels, which are read four at a time.
Result<uint32_t> channels_of(const CellLayout& cells, const ActivationRef& x) {
  const uint32_t channels = x.columns / cells.pixels();
  if (x.columns % cells.pixels() == 0 && channels > 0 && channels % 4 == 0) return channels;
  return Error{Code::unsupported, fmt::format("{} columns are not {} pixels of a multiple of four channels",
                                              x.columns, cells.pixels())};
}

} // namespace

std::string CellPatches::describe() const {
  return fmt::format("{}, patches of {} x {} x {}", describe_cells(cells), channels, patch_height,
                     patch_width);
}

Status CellPatches::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef pixels = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const uint64_t expected = uint64_t{channels} * height * width;
  if (pixels.columns != expected) {
    return Error{Code::invalid_argument,
                 fmt::format("a picture of {} x {} x {} has {} values, and the input has {} columns",
                             channels, height, width, expected, pixels.columns)};
  }
  const uint64_t patch = uint64_t{channels} * patch_height * patch_width;
  if (result.columns != cells.pixels() * patch) {
    return Error{Code::unsupported,
                 fmt::format("{} patches of {} numbers are too many", cells.pixels(), patch)};
  }
  Dispatch dispatch = row_launch(lowering, "cell_patches", CELL_PATCHES_RESULT, result);
  dispatch.set_params(CellPatchesParams{channels, height, width, patch_height, patch_width, cells.side,
                                        cells.across(), cells.count(), pixels.stride, result.stride});
  dispatch.bind(CELL_PATCHES_PIXELS, pixels.buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string CellAttention::describe() const {
  std::string text = fmt::format("{}, {} heads, windows of {}", describe_cells(cells), heads, window);
  if (shift > 0) text += fmt::format(" shifted by {}", shift);
  return text;
}

Status CellAttention::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef query = lowering.tensor(node.inputs[0]), key = lowering.tensor(node.inputs[1]),
                      value = lowering.tensor(node.inputs[2]), result = lowering.tensor(node.output);
  PUMICE_TRY(const uint32_t channels, channels_of(cells, query));
  const uint32_t head_dim = channels / heads;
  if (channels % heads != 0 || head_dim % 4 != 0) {
    return Error{Code::unsupported,
                 fmt::format("{} channels are not {} heads of a multiple of four", channels, heads)};
  }
  PUMICE_TRY(const BufferRef outer_key, lowering.vector(node.weights[0]));
  PUMICE_TRY(const BufferRef outer_value, lowering.vector(node.weights[1]));
  const bool has_table = node.weights.size() > 2, has_scores = node.inputs.size() > 3;
  const uint32_t workgroup = lowering.profile().workgroup;
  Dispatch dispatch = row_launch(lowering, "cell_attention", CELL_ATTENTION_RESULT, result,
                                 {head_dim / 4, cells.whole, has_table, has_scores});
  CellAttentionParams params = {};
  params.heads = heads;
  params.height = cells.height;
  params.width = cells.width;
  params.side = cells.whole ? std::max(cells.height, cells.width) : cells.side; // so that it is one cell
  params.cells = cells.across();
  params.count = cells.count();
  params.window = window;
  params.shift = shift;
  params.x_stride = query.stride;
  params.out_stride = result.stride;
  params.scale = static_cast<float>(1 / std::sqrt(double{1} * head_dim));
  const uint32_t each = cells.pixels() * heads + (result.stride - result.columns) / 4; // and zeros
  dispatch.groups = layers_of_groups(result.rows, each, workgroup);
  params.groups = dispatch.groups[1];
  params.rows_kind = result.rows_kind;
  if (has_scores) {
    const ActivationRef scores = lowering.tensor(node.inputs[3]);
    const uint64_t expected = uint64_t{cells.pixels()} * heads * score_columns();
    if (scores.columns != expected) {
      return Error{Code::unsupported, fmt::format("{} scores of distances are not the {} of {} pixels",
                                                  scores.columns, expected, cells.pixels())};
    }
    params.scores_stride = scores.stride;
    dispatch.bind(CELL_ATTENTION_SCORES, scores.buffer, Access::read);
  }
  dispatch.set_params(params);
  dispatch.bind(CELL_ATTENTION_QUERY, query.buffer, Access::read);
  dispatch.bind(CELL_ATTENTION_KEY, key.buffer, Access::read);
  dispatch.bind(CELL_ATTENTION_VALUE, value.buffer, Access::read);
  if (has_table) {
    PUMICE_TRY(const BufferRef table, lowering.vector(node.weights[2]));
    dispatch.bind(CELL_ATTENTION_TABLE, table, Access::read);
  }
  dispatch.bind(CELL_ATTENTION_OUTER_KEY, outer_key, Access::read);
  dispatch.bind(CELL_ATTENTION_OUTER_VALUE, outer_value, Access::read);
  const double sums = double{1} * result.rows * result.columns * window * window;
  dispatch.flops = 4 * sums;
  dispatch.bytes = 16.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string CellSums::describe() const {
  const std::string text = describe_cells(cells);
  return activation == Activation::none ? text : fmt::format("{}, {}", text, to_string(activation));
}

Status CellSums::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const bool adds = node.inputs.size() > 1;
  const ActivationRef residual = lowering.tensor(node.inputs.back());
  PUMICE_TRY(const uint32_t channels, channels_of(cells, x));
  PUMICE_TRY(const BufferRef bias, lowering.vector(node.weights[0]));
  Dispatch dispatch = row_launch(lowering, "cell_sums", CELL_SUMS_RESULT, result,
                                 {static_cast<uint32_t>(activation), adds ? 1u : 0u});
  dispatch.set_params(CellSumsParams{channels, cells.height, cells.width, cells.whole ? 0 : cells.side,
                                     cells.pixels(), cells.across(), x.stride, residual.stride, result.stride,
                                     result.rows_kind});
  dispatch.bind(CELL_SUMS_X, x.buffer, Access::read);
  dispatch.bind(CELL_SUMS_BIAS, bias, Access::read);
  if (adds) dispatch.bind(CELL_SUMS_RESIDUAL, residual.buffer, Access::read);
  // A whole picture is more than a workgroup's work on a processor too.
  constexpr uint32_t quads_of_group = 1 << 14;
  const uint32_t groups =
      std::max(row_groups(lowering.profile(), result), result.columns / 4 / quads_of_group);
  dispatch.groups = {result.rows, std::min(groups, most_workgroups), 1};
  const double elements = double{1} * result.rows * result.columns;
  dispatch.flops = elements * (activation == Activation::none ? 2 : 12);
  dispatch.bytes = elements * (adds ? 12 : 8);
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId cell_patches(Graph& graph, std::string name, TensorId pixels, const CellPatches& operation) {
  const uint32_t columns =
      operation.cells.pixels() * operation.channels * operation.patch_height * operation.patch_width;
  return graph.add(operation, {pixels}, {}, {std::move(name), RowKind::tokens, columns});
}

TensorId cell_attention(Graph& graph, std::string name, TensorId query, TensorId key, TensorId value,
                        const CellAttention& operation, WeightId key_bias, WeightId value_bias,
                        std::optional<WeightId> table, std::optional<TensorId> scores) {
  std::vector<WeightId> weights = {key_bias, value_bias};
  if (table) weights.push_back(*table);
  std::vector<TensorId> inputs = {query, key, value};
  if (scores) inputs.push_back(*scores);
  return graph.add(operation, std::move(inputs), std::move(weights),
                   {std::move(name), graph.tensor(query).rows, graph.tensor(query).columns});
}

TensorId cell_sums(Graph& graph, std::string name, TensorId x, std::optional<TensorId> residual,
                   const CellSums& operation, WeightId bias) {
  std::vector<TensorId> inputs = {x};
  if (residual) inputs.push_back(*residual);
  return graph.add(operation, std::move(inputs), {bias},
                   {std::move(name), graph.tensor(x).rows, graph.tensor(x).columns});
}

} // namespace pumice
