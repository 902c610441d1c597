#include "kernel/embedding/embedding.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/embedding/prompt_rows.params.h"
#include "shaders/embedding/select_rows.params.h"

namespace pumice {

namespace {

TensorId add_embedding(Graph& graph, std::string name, WeightId table, const Embedding& operation) {
  const uint32_t columns = static_cast<uint32_t>(graph.weight(table).view.columns);
  return graph.add(operation, {}, {table}, {std::move(name), RowKind::tokens, columns});
}

} // namespace

Dispatch embedding(const DeviceProfile& profile, const EmbeddingArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "embedding." + kernel_variant(args.format.type);
  dispatch.constants = {profile.workgroup, args.format.lane_bytes, static_cast<uint32_t>(args.index),
                        args.others.has_value()};
  EmbeddingParams params = {};
  params.blocks = args.format.blocks();
  params.first_tile = args.segment.first_tile;
  params.tiles = args.segment.tiles;
  params.rows = args.rows;
  params.out_stride = args.result.stride;
  params.offset = args.offset;
  params.details = args.step_layout.details();
  params.first_token = args.first_token;
  params.scale = args.scale;
  if (args.others) {
    params.others_stride = args.others->stride;
    dispatch.bind(EMBEDDING_OTHERS, args.others->buffer, Access::read);
  }
  dispatch.set_params(params);
  dispatch.bind(EMBEDDING_STEP, args.step, Access::read);
  dispatch.bind(EMBEDDING_TABLE, args.segment.payload, Access::read);
  if (args.format.scaled()) dispatch.bind(EMBEDDING_SCALES, args.segment.scales, Access::read);
  dispatch.bind(EMBEDDING_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.format.columns;
  dispatch.flops = elements;
  dispatch.bytes = elements * 4 + args.result.rows *
                                      (args.format.tile_payload_bytes() + args.format.tile_scale_bytes()) /
                                      8.0;
  return dispatch;
}

Dispatch select_rows(const DeviceProfile& profile, const SelectRowsArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "select_rows";
  dispatch.constants = {profile.workgroup};
  SelectRowsParams params = {};
  params.columns = args.x.columns;
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  params.capacity = args.step_capacity;
  dispatch.set_params(params);
  dispatch.bind(SELECT_STEP, args.step, Access::read);
  dispatch.bind(SELECT_X, args.x.buffer, Access::read);
  dispatch.bind(SELECT_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  dispatch.bytes = 8.0 * args.result.rows * args.x.columns;
  return dispatch;
}

std::string Embedding::describe() const {
  constexpr std::string_view names[] = {"by token", "by position", "by token type"};
  std::string text(names[static_cast<uint32_t>(index)]);
  if (offset > 0) text += fmt::format(" from row {}", offset);
  if (first_token > 0) text += fmt::format(" from token {}", first_token);
  if (scale != 1) text += fmt::format(" scale {:g}", scale);
  return text;
}

Status Embedding::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(PackedWeight table, lowering.matrix(node.weights));
  EmbeddingArgs args;
  args.format = table.format;
  args.rows = static_cast<uint32_t>(lowering.graph().weight(node.weights[0]).view.rows);
  args.scale = scale;
  args.index = index;
  args.offset = offset;
  args.first_token = first_token;
  if (!node.inputs.empty()) args.others = lowering.tensor(node.inputs[0]);
  args.step_layout = lowering.step_layout();
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  for (const WeightSegment& segment : table.segments) {
    args.segment = segment;
    lowering.emit(embedding(lowering.profile(), args));
  }
  return {};
}

Status SelectRows::lower(Lowering& lowering, const Node& node) const {
  SelectRowsArgs args;
  args.x = lowering.tensor(node.inputs[0]);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  args.step_capacity = lowering.step_capacity();
  lowering.emit(select_rows(lowering.profile(), args));
  return {};
}

std::string PromptRows::describe() const {
  return added ? fmt::format("added, from column {}", first) : "";
}

Status PromptRows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), given = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  if (uint64_t{first} + x.columns > given.columns || first % 4 != 0) {
    return Error{Code::invalid_argument,
                 fmt::format("given rows of {} columns, from column {} on, do not fit embeddings of {}",
                             given.columns, first, x.columns)};
  }
  Dispatch dispatch = row_launch(lowering, "prompt_rows", PROMPT_ROWS_RESULT, result, {added ? 1u : 0u});
  PromptRowsParams params = {};
  params.columns = x.columns;
  params.first = first;
  params.x_stride = x.stride;
  params.embeddings_stride = given.stride;
  params.out_stride = result.stride;
  dispatch.set_params(params);
  dispatch.bind(PROMPT_ROWS_X, x.buffer, Access::read);
  dispatch.bind(PROMPT_ROWS_EMBEDDINGS, given.buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId further_embedding(Graph& graph, std::string name, TensorId x, WeightId table, uint32_t first_token) {
  Embedding operation;
  operation.first_token = first_token;
  return graph.add(operation, {x}, {table}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId embedding(Graph& graph, std::string name, WeightId table, float scale) {
  Embedding operation;
  operation.scale = scale;
  return add_embedding(graph, std::move(name), table, operation);
}

TensorId position_embedding(Graph& graph, std::string name, WeightId table, uint32_t offset) {
  Embedding operation;
  operation.index = EmbeddingIndex::position;
  operation.offset = offset;
  return add_embedding(graph, std::move(name), table, operation);
}

TensorId token_type_embedding(Graph& graph, std::string name, WeightId table) {
  Embedding operation;
  operation.index = EmbeddingIndex::token_type;
  return add_embedding(graph, std::move(name), table, operation);
}

TensorId prompt_rows(Graph& graph, std::string name, TensorId x, TensorId given) {
  return graph.add(PromptRows{}, {x, given}, {}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId added_prompt_rows(Graph& graph, std::string name, TensorId x, TensorId given, uint32_t first) {
  PromptRows operation;
  operation.added = true;
  operation.first = first;
  return graph.add(operation, {x, given}, {}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId select_rows(Graph& graph, std::string name, TensorId x) {
  return graph.add(SelectRows{}, {x}, {}, {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

} // namespace pumice
