#include "kernel/convolution/frames.h"

#include <cmath>

#include <doctest/doctest.h>

#include "kernel/elementwise_reference.h"
#include "kernel/inputs_step.h"
#include "kernel/products/rows.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// In plain C++, of one input: [frames, channels]. A transposed one adds each frame's share to the result.
std::vector<double> convolve_reference(const ConvolveFrames& own, std::span<const float> x, size_t x_frames,
                                       size_t frames, std::span<const float> weight,
                                       std::span<const float> bias) {
  const size_t inputs = own.x.channels, outputs = own.result.channels, columns = (outputs + 3) / 4 * 4;
  std::vector<double> result(frames * outputs);
  for (size_t i = 0; i < result.size(); ++i) result[i] = bias[i % outputs];
  for (size_t frame = 0; frame < x_frames; ++frame) {
    for (size_t tap = 0; tap < own.taps; ++tap) {
      int64_t at = static_cast<int64_t>(frame);
      if (own.transposed) {
        at = at * own.stride + static_cast<int64_t>(tap) - own.padding;
      } else {
        at += own.padding - static_cast<int64_t>(tap * own.dilation);
        if (at % own.stride != 0) continue;
        at /= own.stride;
      }
      if (at < 0 || at >= static_cast<int64_t>(frames)) continue;
      for (size_t c = 0; c < inputs; ++c) {
        for (size_t o = 0; o < outputs; ++o)
          result[static_cast<size_t>(at) * outputs + o] +=
              double{x[frame * inputs + c]} * weight[(tap * inputs + c) * columns + o];
      }
    }
  }
  for (double& each : result) each = activation_reference(own.activation, each);
  return result;
}

size_t frames_of(const FrameLayout& layout, size_t rows) {
  return rows / layout.rows * layout.rate - layout.lacking;
}

FrameLayout layout(uint32_t rows, uint32_t rate, uint32_t channels, uint32_t per_row) {
  FrameLayout made;
  made.rows = rows;
  made.rate = rate;
  made.channels = channels;
  made.per_row = per_row;
  return made;
}

WeightView view_of(TensorView& tensor, const std::vector<float>& values, std::vector<uint64_t> shape) {
  tensor = {"weight", TensorType::f32, std::move(shape), std::as_bytes(std::span(values)), {}};
  return WeightView::whole(tensor);
}

// Inputs of so many rows beside each other.
void run(const DeviceProfile& profile, ConvolveFrames operation, uint32_t channels,
         const std::vector<uint32_t>& input_rows) {
  REQUIRE(operation.set_result(channels).ok());
  CAPTURE(profile.workgroup);
  CAPTURE(operation.describe());
  TestGpu& gpu = TestGpu::get();
  std::vector<StepInput> inputs;
  for (const uint32_t rows : input_rows)
    inputs.push_back({rows, static_cast<uint32_t>(inputs.size()) * 64, 0});
  const uint32_t rows = rows_of(inputs), columns = operation.x.columns();
  const uint32_t weight_columns = (channels + 3) / 4 * 4;
  std::vector<float> x = random_values(size_t{rows} * columns, columns);
  size_t begin = 0;
  for (const uint32_t each : input_rows) { // past an input's last frame nobody wrote
    const auto end = x.begin() + static_cast<ptrdiff_t>(begin += size_t{each} * columns);
    std::fill(
        end - static_cast<ptrdiff_t>(each * columns - frames_of(operation.x, each) * operation.x.channels),
        end, not_a_number);
  }
  std::vector<float> weight =
      random_values(size_t{operation.taps} * operation.x.channels * weight_columns, 3);
  const std::vector<float> bias = random_values(channels, 4);
  TensorView matrix, shift;
  Graph graph;
  const TensorId in = graph.input("frames", RowKind::tokens, columns);
  const TensorId out = convolve_frames(
      graph, "convolved", in, operation,
      graph.weight(view_of(matrix, weight, {operation.taps * operation.x.channels, weight_columns}), "test"),
      graph.weight(view_of(shift, bias, {channels}), "test"));
  const ActivationRef result = blank_rows(rows, operation.result.columns());
  const bool single = operation.x.per_row == 1 && operation.x.rate == operation.x.rows;
  run_graph(profile, graph, inputs_step(inputs, rows + 3), rows + 3,
            {{in, upload_rows(x, columns, single ? 32 : 0)}, {out, result}},
            static_cast<uint32_t>(inputs.size()));
  const std::vector<float> got = gpu.read<float>(result.buffer);
  size_t first = 0;
  for (const uint32_t each : input_rows) {
    CAPTURE(each);
    const size_t x_frames = frames_of(operation.x, each), frames = frames_of(operation.result, each);
    const std::vector<double> expected =
        convolve_reference(operation, std::span(x).subspan(first * columns), x_frames, frames, weight, bias);
    const std::span<const float> found = std::span(got).subspan(first * result.stride, each * result.stride);
    REQUIRE(expected.size() <= found.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      REQUIRE(std::abs(found[i] - expected[i]) <= 1e-4 * std::max(1.0, std::abs(expected[i])));
    }
    for (size_t i = expected.size(); i < found.size(); ++i) REQUIRE(found[i] == sentinel);
    first += each;
  }
  gpu.clear();
}

ConvolveFrames convolution(const FrameLayout& x, uint32_t taps, uint32_t dilation) {
  ConvolveFrames operation;
  operation.x = x;
  operation.taps = taps;
  operation.dilation = dilation;
  operation.padding = dilation * (taps - 1) / 2;
  return operation;
}

ConvolveFrames transposed(const FrameLayout& x, uint32_t taps, uint32_t stride, uint32_t padding) {
  ConvolveFrames operation;
  operation.x = x;
  operation.taps = taps;
  operation.stride = stride;
  operation.padding = padding;
  operation.transposed = true;
  return operation;
}

} // namespace

TEST_CASE("dilated convolutions over frames, of several rows or several to a row") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    ConvolveFrames wide = convolution(layout(1, 5, 12, 8), 7, 9);
    wide.activation = Activation::tanh;
    run(profile, wide, 20, {3, 1, 9});
    run(profile, convolution(layout(2, 1, 32, 1), 7, 1), 36, {10, 2});
    run(profile, convolution(layout(1, 24, 4, 24), 7, 1), 1, {2, 5});
    run(profile, convolution(layout(3, 7, 8, 4), 1, 1), 8, {6, 3});
    ConvolveFrames joined = convolution(layout(3, 3, 8, 1), 1, 1);
    joined.taps = joined.stride = 3;
    run(profile, joined, 33, {9, 3});
  }
}

TEST_CASE("transposed convolutions over frames") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    run(profile, transposed(layout(1, 1, 32, 1), 16, 8, 4), 16, {5, 1});
    run(profile, transposed(layout(2, 2, 8, 4), 10, 5, 3), 12, {4, 14, 2}); // one frame less than times five
    run(profile, transposed(layout(2, 3, 16, 2), 5, 3, 1), 6, {8, 4});
    FrameLayout lacking = layout(1, 6, 32, 6);
    lacking.lacking = 2;
    run(profile, transposed(lacking, 6, 3, 2), 4, {3, 1});
    run(profile, transposed(layout(1, 2, 32, 2), 3, 1, 1), 32, {4});
  }
}

TEST_CASE("convolutions over no frames at all give what lies beside them") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    FrameLayout none = layout(1, 2, 16, 2);
    none.lacking = 2;
    ConvolveFrames padded = convolution(none, 3, 1);
    padded.padding = 2;
    run(profile, padded, 16, {1, 3});
    run(profile, transposed(none, 4, 2, 0), 8, {1, 2});
  }
}

TEST_CASE("convolutions over frames that would leave frames between are refused") {
  ConvolveFrames more = convolution(layout(1, 1, 32, 1), 3, 1);
  more.padding = 2;
  CHECK(more.set_result(4).error().code == Code::unsupported);
  ConvolveFrames uneven = convolution(layout(1, 3, 32, 3), 2, 1);
  uneven.stride = 2;
  CHECK(uneven.set_result(4).error().code == Code::unsupported);
  CHECK(transposed(layout(1, 1, 32, 1), 9, 2, 1).set_result(4).error().code == Code::unsupported);
}

TEST_CASE("snakes") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    CAPTURE(profile.workgroup);
    for (const auto& [channels, frames] : {std::pair(12u, 5u), {32u, 1u}, {4u, 33u}}) {
      CAPTURE(channels);
      TestGpu& gpu = TestGpu::get();
      const uint32_t columns = channels * frames, rows = 5;
      const std::vector<float> x = random_values(size_t{rows} * columns, 7, 64);
      std::vector<float> alpha = random_values(channels, 8, 4);
      alpha[1] = 0;
      alpha[2] = 1e-3f;
      Snake operation;
      operation.channels = channels;
      operation.least = 1e-9f;
      TensorView tensor;
      Graph graph;
      const TensorId in = graph.input("frames", RowKind::tokens, columns);
      const TensorId out =
          snake(graph, "activated", in, operation, graph.weight(view_of(tensor, alpha, {channels}), "test"));
      const ActivationRef result = blank_rows(rows, columns, 32);
      run_graph(profile, graph, inputs_step({{rows, 0, 0}}, rows + 3), rows + 3,
                {{in, upload_rows(x, columns, 32)}, {out, result}});
      const std::vector<float> got = gpu.read<float>(result.buffer);
      for (size_t row = 0; row < rows; ++row) {
        for (size_t column = 0; column < result.padded_columns(); ++column) {
          CAPTURE(column);
          double expected = 0;
          if (column < columns) {
            const float value = x[row * columns + column], factor = alpha[column % channels];
            // What float arithmetic makes of the angle is a part of the formula.
            const double sine = std::sin(double{factor * value});
            expected = value + sine * sine / (double{factor} + operation.least);
          }
          REQUIRE(std::abs(got[row * result.stride + column] - expected) <=
                  1e-5 * std::max(1.0, std::abs(expected)));
        }
      }
      gpu.clear();
    }
  }
}
