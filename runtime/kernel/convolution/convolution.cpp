#include "kernel/convolution/convolution.h"

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/convolution/frame_windows.params.h"
#include "shaders/convolution/pair_windows.params.h"

namespace pumice {

std::string FrameWindows::describe() const {
  return fmt::format("{} channels of {} frames, width {} stride {} from {}", channels, frames, width, stride,
                     first);
}

Status FrameWindows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef features = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  if (features.columns != uint64_t{channels} * frames || width == 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("windows of {} frames over {} channels of {} frames do not fit features of {} columns",
                    width, channels, frames, features.columns)};
  }
  Dispatch dispatch = row_launch(lowering, "frame_windows", FRAME_WINDOWS_RESULT, result);
  FrameWindowsParams params = {};
  params.columns = result.columns;
  params.features_stride = features.stride;
  params.out_stride = result.stride;
  params.frames = frames;
  params.taps = width;
  params.stride = stride;
  params.first = static_cast<uint32_t>(first);
  dispatch.set_params(params);
  dispatch.bind(FRAME_WINDOWS_FEATURES, features.buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

Status PairWindows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef even = lowering.tensor(node.inputs[0]), odd = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  Dispatch dispatch = row_launch(lowering, "pair_windows", PAIR_WINDOWS_RESULT, result);
  PairWindowsParams params = {};
  params.columns = result.columns;
  params.even_stride = even.stride;
  params.odd_stride = odd.stride;
  params.out_stride = result.stride;
  dispatch.set_params(params);
  dispatch.bind(PAIR_WINDOWS_EVEN, even.buffer, Access::read);
  dispatch.bind(PAIR_WINDOWS_ODD, odd.buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId frame_windows(Graph& graph, std::string name, TensorId features, const FrameWindows& operation) {
  return graph.add(operation, {features}, {},
                   {std::move(name), RowKind::tokens, operation.channels * operation.width});
}

TensorId pair_windows(Graph& graph, std::string name, TensorId even, TensorId odd) {
  return graph.add(PairWindows{}, {even, odd}, {},
                   {std::move(name), RowKind::tokens, graph.tensor(even).columns * 3});
}

} // namespace pumice
