#include "kernel/convolution/frames.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "kernel/row_groups.h"
#include "kernel/row_kernel.h"
#include "shaders/convolution/convolve_frames.params.h"
#include "shaders/convolution/snake.params.h"

namespace pumice {

namespace {

constexpr uint32_t whole_columns = 32; // of a row of activations

// The frames of a tensor for so many rows of the step.
uint64_t frames_of(const FrameLayout& layout, uint64_t rows) {
  return (rows + layout.rows - 1) / layout.rows * layout.rate;
}

// Whether a tensor's frames follow each other from row to row.
Status check_layout(const FrameLayout& layout, const ActivationRef& tensor) {
  const bool single = layout.per_row == 1 && layout.rate == layout.rows;
  if (tensor.columns == layout.columns() && (single || tensor.stride == tensor.columns)) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} frames of {} channels to a row do not fit {} columns, {} apart",
                           layout.per_row, layout.channels, tensor.columns, tensor.stride)};
}

} // namespace

Status ConvolveFrames::set_result(uint32_t channels) {
  const int64_t span = int64_t{dilation} * (taps - 1) + 1, all = stride;
  int64_t lacking = 0;
  if (transposed) {
    lacking = x.lacking * all + all + 2 * int64_t{padding} - span;
  } else {
    // As many as the strides that fit the frames, which are a multiple of them, and what is beside those.
    const int64_t beside = 2 * int64_t{padding} - x.lacking - span;
    lacking = -(beside >= 0 ? beside / all : -((-beside + all - 1) / all)) - 1;
  }
  if (lacking < 0 || (!transposed && x.rate % stride != 0)) {
    return Error{
        Code::unsupported,
        fmt::format("a convolution of {} taps with the stride {} and the padding {} is not supported "
                    "over {} frames for each of the input's",
                    taps, stride, padding, x.rate)};
  }
  result = x;
  result.rate = transposed ? x.rate * stride : x.rate / stride;
  result.lacking = static_cast<uint32_t>(lacking);
  result.channels = channels;
  const uint32_t whole = whole_columns / std::gcd(channels, whole_columns);
  result.per_row = ((result.rate + result.rows - 1) / result.rows + whole - 1) / whole * whole;
  return {};
}

uint32_t ConvolveFrames::reach() const {
  const uint32_t span = dilation * (taps - 1);
  return transposed ? (std::max(span, padding) + stride - 1) / stride
                    : std::max(padding, span - std::min(span, padding));
}

std::string ConvolveFrames::describe() const {
  std::string text = fmt::format("{} to {} channels by {}", x.channels, result.channels, taps);
  if (stride > 1) text += fmt::format(" {} {}", transposed ? "up" : "stride", stride);
  if (dilation > 1) text += fmt::format(" dilation {}", dilation);
  if (activation != Activation::none) text += fmt::format(" {}", to_string(activation));
  return text;
}

Status ConvolveFrames::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef from = lowering.tensor(node.inputs[0]), to = lowering.tensor(node.output);
  PUMICE_CHECK(check_layout(x, from));
  PUMICE_CHECK(check_layout(result, to));
  if (x.channels % 4 != 0) {
    return Error{Code::unsupported,
                 fmt::format("a convolution over {} channels is not supported: it needs a multiple of four",
                             x.channels)};
  }
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  PUMICE_TRY(const BufferRef bias, lowering.vector(node.weights[1]));
  ConvolveFramesParams params = {};
  params.row_stride = from.stride;
  params.frame_stride = x.per_row == 1 ? from.stride : x.channels;
  params.out_row_stride = to.stride;
  params.channels = x.channels;
  params.out_channels = result.channels;
  params.quads = (result.channels + 3) / 4;
  params.taps = taps;
  params.rows = x.rows;
  params.x_rate = x.rate;
  params.x_short = x.lacking;
  params.out_rate = result.rate;
  params.out_short = result.lacking;
  params.up = transposed ? stride : 1;
  params.stride = transposed ? 1 : stride;
  params.jump = transposed ? UINT32_MAX : dilation;
  params.begin = transposed ? padding : 0;
  params.before = transposed ? 0 : padding;
  params.capacity = lowering.step_capacity();
  const uint32_t workgroup = lowering.profile().workgroup;
  const uint64_t frames = frames_of(result, to.rows), each = uint64_t{CONVOLVE_FRAMES_GROUP} * params.up;
  const uint64_t invocations = (frames + each - 1) / each * params.up * params.quads;
  Dispatch dispatch;
  dispatch.groups =
      layers_of_groups(std::min(to.rows, lowering.step_layout().sequences), invocations, workgroup);
  params.columns_groups = dispatch.groups[1];
  dispatch.kernel = "convolve_frames";
  dispatch.constants = {workgroup, static_cast<uint32_t>(activation), result.channels % 4 == 0};
  dispatch.set_params(params);
  dispatch.bind(CONVOLVE_FRAMES_STEP, lowering.step(), Access::read);
  dispatch.bind(CONVOLVE_FRAMES_X, from.buffer, Access::read);
  dispatch.bind(CONVOLVE_FRAMES_WEIGHT, weight, Access::read);
  dispatch.bind(CONVOLVE_FRAMES_BIAS, bias, Access::read);
  dispatch.bind(CONVOLVE_FRAMES_RESULT, to.buffer, Access::write);
  const double sums = static_cast<double>(frames) * result.channels;
  dispatch.flops = 2 * sums * x.channels * taps / params.up;
  dispatch.bytes = 4.0 * (static_cast<double>(frames_of(x, from.rows)) * x.channels + sums) +
                   static_cast<double>(weight.bytes);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string Snake::describe() const {
  return fmt::format("{} channels", channels);
}

Status Snake::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  if (channels == 0 || channels % 4 != 0 || x.columns % channels != 0) {
    return Error{
        Code::unsupported,
        fmt::format("a snake of {} channels over {} columns is not supported: it needs a multiple of "
                    "four channels, and whole frames",
                    channels, x.columns)};
  }
  PUMICE_TRY(const BufferRef alpha, lowering.vector(node.weights[0]));
  Dispatch dispatch = row_launch(lowering, "snake", SNAKE_RESULT, result);
  SnakeParams params = {};
  params.columns = result.columns;
  params.channels = channels;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.least = least;
  dispatch.set_params(params);
  dispatch.bind(SNAKE_X, x.buffer, Access::read);
  dispatch.bind(SNAKE_ALPHA, alpha, Access::read);
  dispatch.flops = 24.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId convolve_frames(Graph& graph, std::string name, TensorId x, const ConvolveFrames& operation,
                         WeightId weight, WeightId bias) {
  return graph.add(operation, {x}, {weight, bias},
                   {std::move(name), RowKind::tokens, operation.result.columns()});
}

TensorId snake(Graph& graph, std::string name, TensorId x, const Snake& operation, WeightId alpha) {
  return graph.add(operation, {x}, {alpha}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

} // namespace pumice
