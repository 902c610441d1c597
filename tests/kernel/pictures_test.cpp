#include "kernel/convolution/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include "kernel/elementwise_reference.h"
#include "kernel/inputs_step.h"
#include "kernel/products/rows.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// In plain C++, of one input. x: [height * width, channels], or planes.
std::vector<double> convolve_reference(const Convolve& own, std::span<const float> x, uint32_t height,
                                       uint32_t out_pixels, std::span<const float> weight,
                                       std::span<const float> bias) {
  const uint32_t inputs = own.channels / own.groups, outputs = own.out_channels / own.groups;
  std::vector<double> result;
  for (uint32_t pixel = 0; pixel < out_pixels; ++pixel) {
    for (uint32_t o = 0; o < own.out_channels; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (uint32_t tap = 0; tap < own.kernel_height * own.kernel_width; ++tap) {
        const int64_t y =
            int64_t{pixel / own.out_width()} * own.stride + tap / own.kernel_width - own.padding;
        const int64_t across =
            int64_t{pixel % own.out_width()} * own.stride + tap % own.kernel_width - own.padding_across();
        if (y < 0 || y >= height || across < 0 || across >= own.width) continue;
        const size_t place = static_cast<size_t>(y) * own.width + static_cast<size_t>(across);
        for (uint32_t c = 0; c < inputs; ++c) {
          const size_t channel = o / outputs * inputs + c;
          const float value = own.planes ? x[channel * height * own.width + place]
                                         : x[place * own.pixel_channels() + channel];
          sum += double{value} * weight[(size_t{tap} * inputs + c) * own.out_channels + o];
        }
      }
      if (own.rule == Convolve::Rule::roots) sum = std::sqrt(sum);
      if (own.rule == Convolve::Rule::logarithms) sum = std::log(std::max(sum, double{own.least}));
      result.push_back(activation_reference(own.activation, sum));
    }
  }
  return result;
}

// Numbers as a file's tensor.
struct FloatWeight {
  TensorView tensor;

  FloatWeight(const std::vector<float>& values, std::vector<uint64_t> shape)
      : tensor{"weight", TensorType::f32, std::move(shape), std::as_bytes(std::span(values)), {}} {}
  WeightView view() const { return WeightView::whole(tensor); }
};

Convolve picture(uint32_t channels, uint32_t height, uint32_t width, uint32_t out, uint32_t kernel,
                 uint32_t stride) {
  Convolve operation;
  operation.channels = channels;
  operation.height = height;
  operation.width = width;
  operation.out_channels = out;
  operation.kernel_height = operation.kernel_width = kernel;
  operation.stride = stride;
  operation.padding = kernel / 2;
  return operation;
}

// A row of results; the first number that is wrong ends the case.
void require_close(std::span<const float> got, std::span<const double> expected) {
  for (size_t column = 0; column < expected.size(); ++column) {
    CAPTURE(column);
    REQUIRE(std::abs(got[column] - expected[column]) <= 1e-4 * std::max(1.0, std::abs(expected[column])));
  }
}

void run_pictures(const DeviceProfile& profile, const Convolve& operation, uint32_t pictures,
                  bool with_bias) {
  CAPTURE(profile.workgroup);
  CAPTURE(operation.describe());
  TestGpu& gpu = TestGpu::get();
  const uint32_t size = operation.channels * operation.height * operation.width;
  const uint32_t taps =
      operation.kernel_height * operation.kernel_width * operation.channels / operation.groups;
  const std::vector<float> x = random_values(size_t{size} * pictures, size);
  const std::vector<float> weight = random_values(size_t{taps} * operation.out_channels, 3);
  const std::vector<float> bias = with_bias ? random_values(operation.out_channels, 4) : std::vector<float>();
  const uint32_t out_pixels = operation.out_height() * operation.out_width();
  std::vector<std::vector<double>> expected;
  std::vector<StepInput> inputs;
  for (uint32_t i = 0; i < pictures; ++i) {
    expected.push_back(convolve_reference(operation, std::span(x).subspan(size_t{i} * size, size),
                                          operation.height, out_pixels, weight, bias));
    inputs.push_back({1, i * 8, i});
  }
  const FloatWeight matrix(weight, {taps, operation.out_channels}), shift(bias, {operation.out_channels});
  Graph graph;
  const TensorId in = graph.input("pixels", RowKind::outputs, size);
  std::optional<WeightId> shift_id;
  if (with_bias) shift_id = graph.weight(shift.view(), "test");
  const TensorId out =
      convolve(graph, "convolved", in, operation, graph.weight(matrix.view(), "test"), shift_id);
  const ActivationRef result = blank_rows(pictures, out_pixels * operation.out_channels, 32, ROWS_OUTPUTS);
  run_graph(profile, graph, inputs_step(inputs, pictures + 1), pictures + 1,
            {{in, upload_rows(x, size, 32, false, ROWS_OUTPUTS)}, {out, result}});
  const std::vector<float> got = gpu.read<float>(result.buffer);
  for (uint32_t i = 0; i < pictures; ++i) {
    CAPTURE(i);
    require_close(std::span(got).subspan(size_t{i} * result.stride), expected[i]);
  }
  gpu.clear();
}

// Sounds of so many frames each, in rows that have room for more, beside each other.
void run_sounds(const DeviceProfile& profile, const Convolve& operation,
                const std::vector<uint32_t>& frames) {
  CAPTURE(profile.workgroup);
  CAPTURE(operation.describe());
  TestGpu& gpu = TestGpu::get();
  const auto sounds = static_cast<uint32_t>(frames.size());
  const uint32_t size = operation.pixel_channels() * operation.height * operation.width;
  const uint32_t taps = operation.kernel_height * operation.kernel_width * operation.channels;
  const uint32_t out_columns = operation.out_width() * operation.out_channels;
  const std::vector<float> x = random_values(size_t{size} * sounds, size);
  const std::vector<float> weight = random_values(size_t{taps} * operation.out_channels, 3);
  std::vector<StepInput> inputs;
  for (uint32_t i = 0; i < sounds; ++i)
    inputs.push_back({1, i * 8, i, operation.x_sound.first + operation.x_sound.stride * (frames[i] - 1)});
  const FloatWeight matrix(weight, {taps, operation.out_channels});
  Graph graph;
  const TensorId in = graph.input("frames", RowKind::outputs, size);
  const TensorId out = convolve(graph, "convolved", in, operation, graph.weight(matrix.view(), "test"), {});
  const ActivationRef result = blank_rows(sounds, operation.out_height() * out_columns, 32, ROWS_OUTPUTS);
  run_graph(profile, graph, inputs_step(inputs, sounds + 1), sounds + 1,
            {{in, upload_rows(x, size, 32, false, ROWS_OUTPUTS)}, {out, result}});
  const std::vector<float> got = gpu.read<float>(result.buffer);
  for (uint32_t i = 0; i < sounds; ++i) {
    const uint32_t samples = inputs[i].samples;
    const uint32_t out_frames =
        samples < operation.sound.first ? 0 : (samples - operation.sound.first) / operation.sound.stride + 1;
    const std::vector<double> expected =
        convolve_reference(operation, std::span(x).subspan(size_t{i} * size, size), frames[i],
                           out_frames * operation.out_width(), weight, {});
    CAPTURE(i);
    require_close(std::span(got).subspan(size_t{i} * result.stride), expected);
  }
  gpu.clear();
}

// In plain C++, of one input's frames.
std::vector<double> norm_frames_reference(const NormFrames& own, std::span<const float> x,
                                          std::span<const float> weight, std::span<const float> bias) {
  std::vector<double> result(x.size());
  if (own.so_far) {
    double sum = 0, squares = 0;
    for (size_t first = 0; first < x.size(); first += own.channels) {
      const auto count = static_cast<double>(first + own.channels);
      const std::span<const float> frame = x.subspan(first, own.channels);
      for (const float each : frame) sum += each;
      const double mean = sum / count;
      for (const float each : frame) squares += (each - mean) * (each - mean);
      for (size_t i = 0; i < frame.size(); ++i) {
        const double v = (frame[i] - mean) / std::sqrt(squares / count + own.eps) * weight[i] + bias[i];
        result[first + i] = activation_reference(own.activation, v);
      }
    }
    return result;
  }
  const auto value = [&](size_t i) { return own.spectrum ? std::log(double{x[i]} + own.least) : x[i]; };
  for (size_t channel = 0; channel < own.channels; ++channel) {
    double count = 0, sum = 0, squares = 0;
    const size_t first = own.whole ? 0 : channel, apart = own.whole ? 1 : own.channels;
    for (size_t i = first; i < x.size(); i += apart, ++count) sum += value(i);
    const double mean = sum / count;
    for (size_t i = first; i < x.size(); i += apart) squares += (value(i) - mean) * (value(i) - mean);
    const double scale = weight[channel] / (own.spectrum ? std::sqrt(squares / (count - 1)) + own.eps
                                                         : std::sqrt(squares / count + own.eps));
    for (size_t i = channel; i < x.size(); i += own.channels)
      result[i] = activation_reference(own.activation, (value(i) - mean) * scale + bias[channel]);
  }
  return result;
}

// Sounds of so many frames each, beside each other.
void run_norm_frames(const DeviceProfile& profile, const NormFrames& operation,
                     const std::vector<uint32_t>& frames) {
  CAPTURE(profile.workgroup);
  CAPTURE(operation.describe());
  TestGpu& gpu = TestGpu::get();
  const auto sounds = static_cast<uint32_t>(frames.size());
  const uint32_t columns = operation.channels * (*std::ranges::max_element(frames) + 1);
  std::vector<float> x = random_values(size_t{columns} * sounds, 5);
  if (operation.spectrum) std::ranges::for_each(x, [](float& each) { each *= each; });
  const std::vector<float> weight = random_values(operation.channels, 3),
                           bias = random_values(operation.channels, 4);
  const FloatWeight scale(weight, {operation.channels}), shift(bias, {operation.channels});
  std::vector<StepInput> inputs;
  for (uint32_t i = 0; i < sounds; ++i) {
    const uint32_t samples = operation.sound.first + operation.sound.stride * frames[i] - 1;
    inputs.push_back({1, i * 8, i, samples});
  }
  Graph graph;
  const TensorId in = graph.input("frames", RowKind::outputs, columns);
  const TensorId out = norm_frames(graph, "normed", in, operation, graph.weight(scale.view(), "test"),
                                   graph.weight(shift.view(), "test"));
  const ActivationRef result = blank_rows(sounds, columns, 32, ROWS_OUTPUTS);
  run_graph(profile, graph, inputs_step(inputs, sounds + 1), sounds + 1,
            {{in, upload_rows(x, columns, 32, false, ROWS_OUTPUTS)}, {out, result}});
  const std::vector<float> got = gpu.read<float>(result.buffer);
  for (uint32_t i = 0; i < sounds; ++i) {
    const std::vector<double> expected = norm_frames_reference(
        operation, std::span(x).subspan(size_t{i} * columns, size_t{frames[i]} * operation.channels), weight,
        bias);
    CAPTURE(i);
    require_close(std::span(got).subspan(size_t{i} * result.stride), expected);
  }
  gpu.clear();
}

} // namespace

TEST_CASE("convolutions that reach beyond the last frame of a sound") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Convolve bands = picture(1, 20, 8, 4, 3, 2);
    bands.x_sound = {160, 160};
    bands.sound = {160, 320};
    run_sounds(profile, bands, {20, 7, 1});
    Convolve channels = picture(4, 20, 6, 8, 3, 2);
    channels.x_sound = {160, 320};
    channels.sound = {160, 640};
    channels.activation = Activation::relu;
    run_sounds(profile, channels, {5, 18});
    Convolve first = picture(1, 40, 1, 8, 10, 4);
    first.kernel_width = 1;
    first.x_channels = 4;
    first.x_sound = {1, 1};
    first.sound = {4, 4};
    run_sounds(profile, first, {40, 13, 3});
  }
}

TEST_CASE("norms over the frames of sounds, of each channel and of all together") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const bool whole : {false, true}) {
      NormFrames operation;
      operation.channels = 12;
      operation.whole = whole;
      operation.eps = 1e-5f;
      operation.sound = {7, 3};
      run_norm_frames(profile, operation, {41, 5, 700});
      operation.activation = Activation::gelu;
      run_norm_frames(profile, operation, {2});
    }
    NormFrames so_far;
    so_far.channels = 36;
    so_far.whole = so_far.so_far = true;
    so_far.eps = 1e-3f;
    so_far.sound = {513, 320};
    run_norm_frames(profile, so_far, {41, 1, 150});
    NormFrames spectrum;
    spectrum.channels = 8;
    spectrum.spectrum = true;
    spectrum.least = 0x1p-24f;
    spectrum.eps = 1e-5f;
    spectrum.sound = {160, 160};
    run_norm_frames(profile, spectrum, {41, 2});
  }
}

TEST_CASE("convolutions over pictures") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    run_pictures(profile, picture(1, 1, 1, 4, 1, 1), 1, true);
    run_pictures(profile, picture(3, 7, 5, 8, 3, 1), 2, false);
    run_pictures(profile, picture(4, 9, 6, 12, 3, 2), 3, true);
    run_pictures(profile, picture(32, 5, 11, 64, 1, 2), 1, true);
    Convolve planes = picture(3, 17, 13, 16, 7, 2);
    planes.planes = true;
    planes.activation = Activation::relu;
    run_pictures(profile, planes, 2, true);
    Convolve logarithms = picture(4, 6, 5, 8, 3, 1);
    logarithms.rule = Convolve::Rule::logarithms;
    logarithms.least = 0.5f;
    run_pictures(profile, logarithms, 2, true);
    Convolve grouped = picture(8, 4, 4, 16, 3, 1);
    grouped.groups = 2;
    run_pictures(profile, grouped, 1, false);
  }
}

TEST_CASE("a convolution over pictures names the channels that it cannot do") {
  TestGpu& gpu = TestGpu::get();
  Graph graph;
  const TensorId in = graph.input("pixels", RowKind::outputs, 4);
  const std::vector<float> numbers(12);
  const FloatWeight matrix(numbers, {4, 3});
  const TensorId out =
      convolve(graph, "convolved", in, picture(4, 1, 1, 3, 1, 1), graph.weight(matrix.view(), "test"), {});
  TestLowering lowering(gpu.profile, graph, gpu.step(1));
  lowering.place(in, blank_rows(1, 4, 32, ROWS_OUTPUTS));
  lowering.place(out, blank_rows(1, 3, 32, ROWS_OUTPUTS));
  const Status status = lowering.lower(0);
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("3 channels") != std::string::npos);
  gpu.clear();
}

namespace {

// The rows of two pictures, and of a step that has nothing else.
struct TwoPictures {
  static constexpr uint32_t count = 2;
  uint32_t size; // numbers of each

  std::vector<float> values(uint32_t seed) const { return random_values(size_t{size} * count, seed); }
  ActivationRef rows(const std::vector<float>& values) const {
    return upload_rows(values, size, 32, false, ROWS_OUTPUTS);
  }
  void check(const DeviceProfile& profile, const Graph& graph,
             std::vector<std::pair<TensorId, ActivationRef>> places, TensorId out,
             std::span<const double> expected) const {
    const ActivationRef result = blank_rows(count, size, 32, ROWS_OUTPUTS);
    places.emplace_back(out, result);
    run_graph(profile, graph, inputs_step(std::vector<StepInput>{{1, 0, 0}, {1, 8, 1}}, count + 1), count + 1,
              places);
    const std::vector<float> got = TestGpu::get().read<float>(result.buffer);
    for (uint32_t i = 0; i < count; ++i)
      require_close(std::span(got).subspan(size_t{i} * result.stride),
                    expected.subspan(size_t{i} * size, size));
    TestGpu::get().clear();
  }
};

} // namespace

TEST_CASE("each channel of a picture is convolved by itself") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [channels, height, width, kernel] : {std::array{12u, 5u, 7u, 3u}, {4u, 2u, 3u, 5u}}) {
      ConvolveChannels own;
      own.channels = channels;
      own.height = height;
      own.width = width;
      own.kernel = kernel;
      CAPTURE(own.describe());
      const TwoPictures two{channels * height * width};
      const std::vector<float> x = two.values(1),
                               weight = random_values(size_t{kernel} * kernel * channels, 2),
                               bias = random_values(channels, 3);
      std::vector<double> expected;
      for (uint32_t i = 0; i < TwoPictures::count * two.size; ++i) {
        const uint32_t picture = i / two.size, pixel = i % two.size / channels, c = i % channels;
        double sum = bias[c];
        for (uint32_t tap = 0; tap < kernel * kernel; ++tap) {
          const int64_t y = int64_t{pixel / width} + tap / kernel - kernel / 2,
                        across = int64_t{pixel % width} + tap % kernel - kernel / 2;
          if (y < 0 || y >= height || across < 0 || across >= width) continue;
          const auto at = static_cast<size_t>((picture * height + y) * width + across) * channels + c;
          sum += double{x[at]} * weight[tap * channels + c];
        }
        expected.push_back(sum);
      }
      const FloatWeight matrix(weight, {uint64_t{kernel} * kernel, channels}), shift(bias, {channels});
      Graph graph;
      const TensorId in = graph.add_tensor({"x", RowKind::outputs, two.size});
      const TensorId out = convolve_channels(graph, "out", in, own, graph.weight(matrix.view(), "test"),
                                             graph.weight(shift.view(), "test"));
      two.check(profile, graph, {{in, two.rows(x)}}, out, expected);
    }
  }
}

TEST_CASE("channels of a picture attend to those of their group") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [channels, groups, pixels] : {std::array{24u, 2u, 35u}, {8u, 2u, 1u}, {16u, 1u, 300u}}) {
      ChannelAttention own;
      own.channels = channels;
      own.groups = groups;
      own.scale = 0.3f;
      CAPTURE(own.describe());
      const TwoPictures two{channels * pixels};
      const uint32_t group = channels / groups;
      const std::vector<float> parts[] = {two.values(1), two.values(2), two.values(3)};
      std::vector<double> expected(parts[0].size());
      for (uint32_t row = 0; row < TwoPictures::count * channels; ++row) {
        const uint32_t first = row / channels * two.size, c = row % channels,
                       from = first + c / group * group;
        std::vector<double> shares(group);
        double total = 0;
        for (uint32_t other = 0; other < group; ++other) {
          double score = 0;
          for (uint32_t i = 0; i < pixels; ++i)
            score += double{parts[0][first + i * channels + c]} * parts[1][from + i * channels + other];
          total += shares[other] = std::exp(score * double{own.scale});
        }
        for (uint32_t i = 0; i < two.size; ++i) {
          if (i % channels != c) continue;
          for (uint32_t other = 0; other < group; ++other)
            expected[first + i] += shares[other] / total * parts[2][from + i / channels * channels + other];
        }
      }
      Graph graph;
      std::vector<std::pair<TensorId, ActivationRef>> places;
      for (const std::vector<float>& part : parts)
        places.emplace_back(graph.add_tensor({"in", RowKind::outputs, two.size}), two.rows(part));
      const TensorId out =
          channel_attention(graph, "out", places[0].first, places[1].first, places[2].first, own);
      two.check(profile, graph, places, out, expected);
    }
  }
}

// Two inputs of five rows: three pixels of a picture, and what comes behind them.
TEST_CASE("pixels become rows, before those of a text") {
  constexpr uint32_t columns = 12, pixels = 3, rows = 5, pictures = 2;
  for (const DeviceProfile& profile : profiles_to_test()) {
    const std::vector<float> x = random_values(size_t{pictures} * pixels * columns, 1),
                             text = random_values(size_t{pictures} * rows * columns, 2);
    Graph graph;
    const TensorId in = graph.add_tensor({"x", RowKind::outputs, pixels * columns}),
                   rest = graph.add_tensor({"text", RowKind::tokens, columns});
    const TensorId out = frame_rows(graph, "out", in, columns, rest);
    const ActivationRef result = blank_rows(pictures * rows, columns);
    run_graph(profile, graph,
              inputs_step(std::vector<StepInput>{{rows, 0, 0}, {rows, 8, 1}}, pictures * rows),
              pictures * rows,
              {{in, upload_rows(x, pixels * columns, 32, false, ROWS_OUTPUTS)},
               {rest, upload_rows(text, columns)},
               {out, result}},
              pictures);
    const std::vector<float> got = TestGpu::get().read<float>(result.buffer);
    for (uint32_t row = 0; row < pictures * rows; ++row) {
      const uint32_t at = row % rows;
      for (uint32_t column = 0; column < columns; ++column) {
        const float expected =
            at < pixels ? x[(row / rows * pixels + at) * columns + column] : text[row * columns + column];
        REQUIRE(got[row * result.stride + column] == expected);
      }
    }
    TestGpu::get().clear();
  }
}
