#include "kernel/convolution/pictures.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/convolution/channel_scores.params.h"
#include "shaders/convolution/channel_sums.params.h"
#include "shaders/convolution/convolve.params.h"
#include "shaders/convolution/convolve_channels.params.h"
#include "shaders/convolution/frame_rows.params.h"
#include "shaders/convolution/norm_frames.params.h"
#include "shaders/convolution/pool_pixels.params.h"

namespace pumice {

namespace {

Status check_channels(std::string_view what, uint32_t channels) {
  if (channels > 0 && channels % 4 == 0) return {};
  return Error{
      Code::unsupported,
      fmt::format("{} of {} channels is not supported: it needs a multiple of four", what, channels)};
}

Status check(const Convolve& own, const ActivationRef& x) {
  PUMICE_CHECK(check_channels("a convolution", own.out_channels));
  const bool groups = own.groups > 0 && own.channels % own.groups == 0 && own.out_channels % own.groups == 0;
  if (own.groups != 1 && (!groups || own.out_channels / own.groups % 4 != 0)) {
    return Error{Code::unsupported,
                 fmt::format("a convolution from {} to {} channels in {} groups is not supported: each group "
                             "needs a multiple of four",
                             own.channels, own.out_channels, own.groups)};
  }
  if (!own.by_tokens && (own.height + 2 * own.padding < own.kernel_height ||
                         own.width + 2 * own.padding_across() < own.kernel_width)) {
    return Error{Code::invalid_argument,
                 fmt::format("a window of {} x {} pixels does not fit {} x {}", own.kernel_height,
                             own.kernel_width, own.height, own.width)};
  }
  const uint64_t expected =
      own.by_tokens ? own.channels : uint64_t{own.pixel_channels()} * own.height * own.width;
  if (x.columns == expected && own.stride > 0) return {};
  return Error{Code::invalid_argument,
               fmt::format("a convolution over {} x {} pixels of {} channels does not fit {} columns",
                           own.height, own.width, own.channels, x.columns)};
}

// Where x and the result lie.
void set_strides(const Convolve& own, const ActivationRef& x, const ActivationRef& result,
                 ConvolveParams& params) {
  params.row_stride = x.stride;
  params.pixel_stride = own.by_tokens ? x.stride : own.planes ? 1 : own.pixel_channels();
  params.channel_stride = own.planes ? own.height * own.width : 1;
  params.out_row_stride = result.stride;
  params.out_pixel_stride = own.by_tokens ? result.stride : own.out_channels;
}

} // namespace

std::string Convolve::describe() const {
  std::string text = fmt::format("{} x {} x {} to {} by {} x {}", height, width, channels, out_channels,
                                 kernel_height, kernel_width);
  if (stride > 1) text += fmt::format(" stride {}", stride);
  if (groups > 1) text += fmt::format(" in {} groups", groups);
  if (activation != Activation::none) text += fmt::format(" {}", to_string(activation));
  return text;
}

Status Convolve::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check(*this, x));
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  const bool has_bias = node.weights.size() > 1;
  ConvolveParams params = {};
  set_strides(*this, x, result, params);
  params.height = height;
  params.width = width;
  params.out_height = out_height();
  params.out_width = out_width();
  params.channels = channels / groups;
  params.out_channels = out_channels;
  params.group_channels = out_channels / groups;
  params.kernel_height = kernel_height;
  params.kernel_width = kernel_width;
  params.stride = stride;
  params.padding = padding;
  params.padding_across = padding_across();
  params.capacity = lowering.step_capacity();
  params.sound_first = sound.first;
  params.sound_stride = sound.stride;
  params.x_sound_first = x_sound.first;
  params.x_sound_stride = x_sound.stride;
  params.least = least;
  const uint32_t workgroup = lowering.profile().workgroup;
  const uint64_t pixels = by_tokens ? x.rows : uint64_t{params.out_height} * params.out_width;
  const uint64_t invocations = (pixels + CONVOLVE_PIXELS - 1) / CONVOLVE_PIXELS * (out_channels / 4);
  const uint32_t inputs = by_tokens ? std::min(x.rows, lowering.step_layout().sequences) : x.rows;
  const bool by_fours = !planes && params.channels % 4 == 0 && pixel_channels() % 4 == 0;
  Dispatch dispatch;
  dispatch.kernel = "convolve";
  dispatch.constants = {workgroup, static_cast<uint32_t>(activation), has_bias, by_fours,
                        by_tokens, static_cast<uint32_t>(rule)};
  dispatch.groups = layers_of_groups(inputs, invocations, workgroup);
  params.columns_groups = dispatch.groups[1];
  dispatch.set_params(params);
  dispatch.bind(CONVOLVE_STEP, lowering.step(), Access::read);
  dispatch.bind(CONVOLVE_X, x.buffer, Access::read);
  dispatch.bind(CONVOLVE_WEIGHT, weight, Access::read);
  if (has_bias) {
    PUMICE_TRY(const BufferRef bias, lowering.vector(node.weights[1]));
    dispatch.bind(CONVOLVE_BIAS, bias, Access::read);
  }
  dispatch.bind(CONVOLVE_RESULT, result.buffer, Access::write);
  const double sums = double{1} * (by_tokens ? 1 : inputs) * static_cast<double>(pixels) * out_channels;
  dispatch.flops = 2 * sums * kernel_height * kernel_width * params.channels;
  dispatch.bytes = 4.0 * (double{1} * x.rows * x.columns + sums) + static_cast<double>(weight.bytes);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string PoolPixels::describe() const {
  return fmt::format("{} of {} x {} of {} x {} x {} stride {}", mean ? "mean" : "largest", window_height,
                     window_width, height, width, channels, stride);
}

Status PoolPixels::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check_channels("a pooling", channels));
  if (height + 2 * padding < window_height || width + 2 * padding < window_width) {
    return Error{Code::invalid_argument, fmt::format("a window of {} x {} pixels does not fit {} x {}",
                                                     window_height, window_width, height, width)};
  }
  Dispatch dispatch = row_launch(lowering, "pool_pixels", POOL_PIXELS_RESULT, result, {mean});
  PoolPixelsParams params = {};
  params.channels = channels;
  params.height = height;
  params.width = width;
  params.out_height = out_height();
  params.out_width = out_width();
  params.window_height = window_height;
  params.window_width = window_width;
  params.stride = stride;
  params.padding = padding;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  dispatch.set_params(params);
  dispatch.bind(POOL_PIXELS_X, x.buffer, Access::read);
  const uint32_t workgroup = lowering.profile().workgroup;
  dispatch.groups = {result.rows, (result.padded_columns() / 4 + workgroup - 1) / workgroup, 1};
  const double values = double{1} * result.rows * result.columns;
  dispatch.flops = values * window_height * window_width;
  dispatch.bytes = 4.0 * (double{1} * x.rows * x.columns + values);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string NormFrames::describe() const {
  return fmt::format("{} channels{} eps {:g}", channels,
                     whole ? so_far ? " together so far" : " together" : "", eps);
}

Status NormFrames::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check_channels("a norm of frames", channels));
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  PUMICE_TRY(const BufferRef bias, lowering.vector(node.weights[1]));
  Dispatch dispatch = row_launch(lowering, "norm_frames", NORM_FRAMES_RESULT, result,
                                 {static_cast<uint32_t>(activation), whole, spectrum, so_far});
  NormFramesParams params = {};
  params.channels = channels;
  params.frames = x.columns / channels;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.capacity = lowering.step_capacity();
  params.sound_first = sound.first;
  params.sound_stride = sound.stride;
  params.eps = eps;
  params.least = least;
  dispatch.set_params(params);
  dispatch.bind(NORM_FRAMES_X, x.buffer, Access::read);
  dispatch.bind(NORM_FRAMES_WEIGHT, weight, Access::read);
  dispatch.bind(NORM_FRAMES_BIAS, bias, Access::read);
  dispatch.groups = {x.rows, whole ? 1 : channels / 4, 1};
  const double values = double{1} * x.rows * x.columns;
  dispatch.flops = values * 8;
  dispatch.bytes = values * 16;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string ConvolveChannels::describe() const {
  return fmt::format("{} x {} x {} by {} x {}", height, width, channels, kernel, kernel);
}

Status ConvolveChannels::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check_channels("a convolution of each channel", channels));
  if (x.columns != uint64_t{channels} * height * width || kernel % 2 == 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("a convolution of {} x {} pixels of {} channels by {} x {} does not fit {} columns",
                    height, width, channels, kernel, kernel, x.columns)};
  }
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  PUMICE_TRY(const BufferRef bias, lowering.vector(node.weights[1]));
  const uint32_t workgroup = lowering.profile().workgroup;
  Dispatch dispatch = row_launch(lowering, "convolve_channels", CONVOLVE_CHANNELS_RESULT, result);
  dispatch.groups = layers_of_groups(result.rows, result.padded_columns() / 4, workgroup);
  dispatch.set_params(
      ConvolveChannelsParams{channels, height, width, kernel, x.stride, result.stride, dispatch.groups[1]});
  dispatch.bind(CONVOLVE_CHANNELS_X, x.buffer, Access::read);
  dispatch.bind(CONVOLVE_CHANNELS_WEIGHT, weight, Access::read);
  dispatch.bind(CONVOLVE_CHANNELS_BIAS, bias, Access::read);
  const double values = double{1} * x.rows * x.columns;
  dispatch.flops = 2 * values * kernel * kernel;
  dispatch.bytes = 8 * values;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string ChannelAttention::describe() const {
  return fmt::format("{} channels in {} groups", channels, groups);
}

Status ChannelAttention::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef query = lowering.tensor(node.inputs[0]), key = lowering.tensor(node.inputs[1]),
                      value = lowering.tensor(node.inputs[2]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check_channels("a group of channels", groups > 0 ? channels / groups : 0));
  const uint32_t group = channels / groups, pixels = query.columns / channels;
  if (group * groups != channels || query.columns != pixels * channels) {
    return Error{Code::invalid_argument, fmt::format("{} groups of {} channels do not fit {} columns", groups,
                                                     channels, query.columns)};
  }
  const BufferRef shares = lowering.temporary(uint64_t{query.rows} * channels * group * sizeof(float));
  const uint32_t workgroup = lowering.profile().workgroup;
  const double sums = double{1} * query.rows * query.columns * group;
  Dispatch scores;
  scores.kernel = "channel_scores";
  scores.constants = {workgroup, group / 4};
  scores.set_params(ChannelScoresParams{channels, pixels, query.stride, key.stride, scale});
  scores.bind(CHANNEL_SCORES_STEP, lowering.step(), Access::read);
  scores.bind(CHANNEL_SCORES_QUERY, query.buffer, Access::read);
  scores.bind(CHANNEL_SCORES_KEY, key.buffer, Access::read);
  scores.bind(CHANNEL_SCORES_RESULT, shares, Access::write);
  scores.groups = {query.rows, channels, 1};
  scores.flops = 2 * sums;
  scores.bytes = 8.0 * query.rows * query.columns;
  lowering.emit(std::move(scores));
  Dispatch dispatch = row_launch(lowering, "channel_sums", CHANNEL_SUMS_RESULT, result, {group / 4});
  dispatch.groups = layers_of_groups(result.rows, result.padded_columns() / 4, workgroup);
  dispatch.set_params(ChannelSumsParams{channels, pixels, value.stride, result.stride, dispatch.groups[1]});
  dispatch.bind(CHANNEL_SUMS_SHARES, shares, Access::read);
  dispatch.bind(CHANNEL_SUMS_VALUE, value.buffer, Access::read);
  dispatch.flops = 2 * sums;
  dispatch.bytes = 8.0 * query.rows * query.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

Status FrameRows::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  PUMICE_CHECK(check_channels("a row of frames", columns));
  const bool rest = node.inputs.size() > 1;
  Dispatch dispatch = row_launch(lowering, "frame_rows", FRAME_ROWS_RESULT, result, {rest});
  FrameRowsParams params = {};
  params.columns = columns;
  params.frames = x.columns / columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.rest_stride = lowering.tensor(node.inputs.back()).stride;
  dispatch.set_params(params);
  dispatch.bind(FRAME_ROWS_X, x.buffer, Access::read);
  if (rest) dispatch.bind(FRAME_ROWS_REST, lowering.tensor(node.inputs[1]).buffer, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId convolve(Graph& graph, std::string name, TensorId x, const Convolve& operation, WeightId weight,
                  std::optional<WeightId> bias) {
  std::vector<WeightId> weights = {weight};
  if (bias) weights.push_back(*bias);
  const RowKind rows = operation.by_tokens ? RowKind::tokens : RowKind::outputs;
  const uint32_t pixels = operation.by_tokens ? 1 : operation.out_height() * operation.out_width();
  return graph.add(operation, {x}, std::move(weights),
                   {std::move(name), rows, pixels * operation.out_channels});
}

TensorId pool_pixels(Graph& graph, std::string name, TensorId x, const PoolPixels& operation) {
  const uint32_t columns = operation.out_height() * operation.out_width() * operation.channels;
  return graph.add(operation, {x}, {}, {std::move(name), RowKind::outputs, columns});
}

TensorId norm_frames(Graph& graph, std::string name, TensorId x, const NormFrames& operation, WeightId weight,
                     WeightId bias) {
  return graph.add(operation, {x}, {weight, bias},
                   {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

TensorId convolve_channels(Graph& graph, std::string name, TensorId x, const ConvolveChannels& operation,
                           WeightId weight, WeightId bias) {
  return graph.add(operation, {x}, {weight, bias},
                   {std::move(name), RowKind::outputs, graph.tensor(x).columns});
}

TensorId channel_attention(Graph& graph, std::string name, TensorId query, TensorId key, TensorId value,
                           const ChannelAttention& operation) {
  return graph.add(operation, {query, key, value}, {},
                   {std::move(name), RowKind::outputs, graph.tensor(query).columns});
}

TensorId frame_rows(Graph& graph, std::string name, TensorId x, uint32_t columns,
                    std::optional<TensorId> rest) {
  FrameRows operation;
  operation.columns = columns;
  std::vector<TensorId> inputs = {x};
  if (rest) inputs.push_back(*rest);
  return graph.add(operation, std::move(inputs), {}, {std::move(name), RowKind::tokens, columns});
}

} // namespace pumice
