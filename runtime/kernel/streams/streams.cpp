#include "kernel/streams/streams.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/streams/match_streams.params.h"

namespace pumice {

namespace {

constexpr float least_square = 1e-5f; // of a stream, before it gets another's size

Status check_streams(std::string_view what, uint32_t streams, uint32_t columns) {
  if (streams >= 2 && streams <= most_streams && columns % 4 == 0 && columns > 0) return {};
  return Error{Code::unsupported, fmt::format("{}: expected 2 to {} streams of a multiple of four columns; "
                                              "found {} of {}",
                                              what, most_streams, streams, columns)};
}

} // namespace

std::string MixStreams::describe() const {
  constexpr std::string_view names[] = {"predict", "correct", "add to"};
  return fmt::format("{} {} streams", names[static_cast<uint32_t>(kind)], streams);
}

Status MixStreams::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const uint32_t columns = x.columns / streams;
  PUMICE_CHECK(check_streams(name(), streams, columns));
  Dispatch dispatch =
      row_launch(lowering, "mix_streams", MIX_STREAMS_RESULT, result, {static_cast<uint32_t>(kind), streams});
  MixStreamsParams params = {};
  params.columns = columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.rows_kind = x.rows_kind;
  params.computed = active;
  params.scale = scale;
  dispatch.bind(MIX_STREAMS_X, x.buffer, Access::read);
  if (kind != Kind::add) {
    const ActivationRef routed = lowering.tensor(node.inputs[1]);
    PUMICE_TRY(const BufferRef coefficients, lowering.vector(node.weights[0]));
    params.routed_stride = routed.stride;
    dispatch.bind(MIX_STREAMS_ROUTED, routed.buffer, Access::read);
    dispatch.bind(MIX_STREAMS_COEFFICIENTS, coefficients, Access::read);
  }
  if (kind != Kind::predict) {
    const ActivationRef added = lowering.tensor(node.inputs.back());
    params.added_stride = added.stride;
    dispatch.bind(MIX_STREAMS_ADDED, added.buffer, Access::read);
  }
  dispatch.set_params(params);
  ActivationRef stream = result;
  stream.columns = columns;
  dispatch.groups = {result.rows, row_groups(lowering.profile(), stream), 1};
  const double elements = double{1} * x.rows * x.columns;
  dispatch.flops = elements * (kind == Kind::predict ? 2 * streams : 3);
  dispatch.bytes = elements * 8 + (kind == Kind::predict ? 0.0 : 4.0 * x.rows * columns);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string MatchStreams::describe() const {
  return fmt::format("{}{} streams", mean ? "mean of " : "", streams);
}

Status MatchStreams::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef first = lowering.tensor(node.inputs[0]), others = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  const uint32_t columns = mean ? result.columns : result.columns / streams;
  PUMICE_CHECK(check_streams(name(), streams, columns));
  Dispatch dispatch =
      row_launch(lowering, "match_streams", MATCH_STREAMS_RESULT, result, {streams, mean ? 1u : 0u});
  MatchStreamsParams params = {};
  params.columns = columns;
  params.first_stride = first.stride;
  params.others_stride = others.stride;
  params.out_stride = result.stride;
  params.rows_kind = result.rows_kind;
  params.least = least_square;
  dispatch.set_params(params);
  dispatch.bind(MATCH_STREAMS_FIRST, first.buffer, Access::read);
  dispatch.bind(MATCH_STREAMS_OTHERS, others.buffer, Access::read);
  dispatch.groups = {result.rows, 1, 1};
  const double elements = double{1} * result.rows * columns * streams;
  dispatch.flops = elements * 4;
  dispatch.bytes = elements * 8;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId predict_streams(Graph& graph, std::string name, TensorId x, TensorId routed, float scale,
                         WeightId coefficients, uint32_t streams) {
  MixStreams operation;
  operation.streams = streams;
  operation.scale = scale;
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x, routed}, {coefficients}, {std::move(name), from.rows, from.columns});
}

TensorId correct_streams(Graph& graph, std::string name, TensorId x, TensorId routed, TensorId computed,
                         WeightId coefficients, MixStreams operation) {
  operation.kind = MixStreams::Kind::correct;
  const Tensor& from = graph.tensor(x);
  return graph.add(std::move(operation), {x, routed, computed}, {coefficients},
                   {std::move(name), from.rows, from.columns});
}

TensorId add_to_streams(Graph& graph, std::string name, TensorId x, TensorId added, uint32_t streams) {
  MixStreams operation;
  operation.kind = MixStreams::Kind::add;
  operation.streams = streams;
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x, added}, {}, {std::move(name), from.rows, from.columns});
}

TensorId match_streams(Graph& graph, std::string name, TensorId first, TensorId others, uint32_t streams) {
  MatchStreams operation;
  operation.streams = streams;
  const Tensor& from = graph.tensor(others);
  return graph.add(operation, {first, others}, {},
                   {std::move(name), from.rows, from.columns / (streams - 1) * streams});
}

TensorId mean_stream(Graph& graph, std::string name, TensorId first, TensorId others, uint32_t streams) {
  MatchStreams operation;
  operation.streams = streams;
  operation.mean = true;
  const Tensor& from = graph.tensor(others);
  return graph.add(operation, {first, others}, {},
                   {std::move(name), from.rows, from.columns / (streams - 1)});
}

} // namespace pumice
