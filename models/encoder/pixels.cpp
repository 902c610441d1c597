#include "models/encoder/pixels.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/heads/heads.h"
#include "kernel/norm/norm.h"

namespace pumice {

namespace {

constexpr std::string_view pixels_component = "attention";

} // namespace

WeightId PixelBuilder::weight(const WeightView& view) const {
  return builder_.weight(view, pixels_component);
}

WeightId PixelBuilder::bias(std::string_view name, uint32_t rows) const {
  return weight(builder_.tensor({name, ""}, ".bias", rows, 0, pixels_component));
}

WeightId PixelBuilder::zeros(std::string_view name, uint32_t count) const {
  return weight(
      builder_.derived_tensor(name, {count}, [](std::span<float> to) { std::ranges::fill(to, 0.0f); }));
}

WeightId PixelBuilder::taps(const std::string& name, uint32_t to, uint32_t from, uint32_t kernel) const {
  const uint64_t count = uint64_t{kernel} * kernel;
  const WeightView stored =
      builder_.flat_tensor({name, ""}, ".weight", {to, from, kernel, kernel}, pixels_component);
  return weight(builder_.derived_tensor(name + ".taps", {count * from, to}, [&](std::span<float> values) {
    const std::vector<float> found = decode_vector(stored);
    for (uint64_t i = 0; i < values.size(); ++i) {
      const uint64_t tap = i / to / from, channel = i / to % from, row = i % to;
      values[i] = found[(row * from + channel) * count + tap];
    }
  }));
}

TensorId PixelBuilder::norm(TensorId x, std::string_view name, uint32_t columns) const {
  return grouped_layer_norm(
      graph(), node(name), x,
      builder_.weight(builder_.tensor({name, ""}, ".weight", columns, 0, "norms"), "norms"),
      builder_.weight(builder_.tensor({name, ""}, ".bias", columns, 0, "norms"), "norms"),
      graph().tensor(x).columns / columns, norm_eps_);
}

TensorId PixelBuilder::product(TensorId x, const std::string& name, const WeightView& matrix) const {
  const auto columns = static_cast<uint32_t>(matrix.columns);
  return shared_head_linear(graph(), node(name), x, {columns, 0, columns},
                            graph().tensor(x).columns / columns, weight(matrix));
}

TensorId PixelBuilder::project(TensorId x, const std::string& name, uint32_t rows) const {
  return product(x, name, builder_.tensor({name, ""}, ".weight", rows, channels_, pixels_component));
}

TensorId PixelBuilder::sums(TensorId x, const std::string& name, std::optional<TensorId> residual,
                            WeightId added, uint32_t channels, Activation activation) const {
  CellSums operation;
  operation.cells = CellLayout::of_pictures(graph().tensor(x).columns / channels, 1);
  operation.activation = activation;
  return cell_sums(graph(), node(name) + ".sum", x, residual, operation, added);
}

TensorId PixelBuilder::biased(TensorId x, const std::string& name, TensorId residual) const {
  return sums(x, name, residual, bias(name, channels_), channels_);
}

std::array<PixelBuilder::Input, 3> PixelBuilder::project_inputs(const std::string& attention, TensorId x,
                                                                bool input_bias) const {
  const std::string name = attention + ".qkv";
  const std::array<uint64_t, 3> counts = {channels_, channels_, channels_};
  const auto matrices = builder_.fused_tensor({name, ""}, ".weight", counts, channels_, 1, pixels_component);
  std::vector<WeightView> biases;
  if (input_bias) biases = builder_.fused_tensor({name, ""}, ".bias", counts, 0, 1, pixels_component);
  constexpr const char* endings[] = {".query", ".key", ".value"};
  std::array<Input, 3> inputs = {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].x = product(x, name + endings[i], matrices[i]);
    inputs[i].bias = input_bias ? weight(biases[i]) : zeros(attention + ".no_bias", channels_);
    if (input_bias) inputs[i].x = sums(inputs[i].x, name + endings[i], {}, inputs[i].bias, channels_);
  }
  return inputs;
}

TensorId PixelBuilder::feed_forward(TensorId x, TensorId residual, const FeedForward& own) const {
  constexpr uint64_t most = 1 << 24;
  const uint32_t inner = own.inner, height = pixels_.height, line = pixels_.width * channels_;
  const auto fitting =
      static_cast<uint32_t>(std::clamp<uint64_t>(most / (uint64_t{inner} * pixels_.width), 1, height));
  const uint32_t parts = (height + fitting - 1) / fitting, lines = (height + parts - 1) / parts;
  const WeightView up = builder_.tensor({own.up, ""}, ".weight", inner, channels_, pixels_component),
                   down = builder_.tensor({own.down, ""}, ".weight", channels_, inner, pixels_component);
  const WeightId up_bias = bias(own.up, inner);
  std::optional<TensorId> all;
  for (uint32_t first = 0; first < height; first += lines) {
    const std::string ending = fmt::format(".{}", first);
    const uint32_t before = first * line, columns = std::min(lines, height - first) * line;
    TensorId y = x;
    if (parts > 1)
      y = graph().add_tensor({node(own.up) + ".lines" + ending, RowKind::outputs, columns, View{x, before}});
    y = product(y, own.up + ending, up);
    y = sums(y, own.up + ending, {}, up_bias, inner, own.activation);
    y = product(y, own.down + ending, down);
    all = all ? join_heads(graph(), node("parts") + ending, *all, {0, 0, before}, y, {0, 0, columns}, 1) : y;
  }
  return biased(*all, own.down, residual);
}

} // namespace pumice
