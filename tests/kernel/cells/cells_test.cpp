#include "kernel/cells/cells.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include <doctest/doctest.h>

#include "kernel/cells/cells_reference.h"
#include "kernel/elementwise_reference.h"
#include "kernel/inputs_step.h"
#include "kernel/products/rows.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// Two pictures in one step.
constexpr uint32_t pictures = 2;

// Where a row is a picture, it is an output, of which there are fewer than tokens.
std::vector<StepInput> inputs_of(const CellLayout& cells) {
  const uint32_t tokens = cells.whole ? 2 : cells.count();
  return {{tokens, 0, 0}, {tokens, 40, 1}};
}

WeightId weight_of(Graph& graph, TensorView& tensor, const std::vector<float>& values,
                   std::vector<uint64_t> shape) {
  tensor = {"weight", TensorType::f32, std::move(shape), std::as_bytes(std::span(values)), {}};
  return graph.weight(WeightView::whole(tensor), "");
}

// Both pictures' rows.
std::vector<float> rows_in_cells(const CellLayout& cells, const std::vector<float>& all, size_t channels) {
  std::vector<float> rows;
  const size_t size = all.size() / pictures;
  for (size_t i = 0; i < pictures; ++i) {
    const std::vector<float> one = in_cells(cells, std::span(all).subspan(i * size, size), channels);
    rows.insert(rows.end(), one.begin(), one.end());
  }
  return rows;
}

// Pixels that the pictures lack may be anything.
std::vector<float> garbled(const CellLayout& cells, const std::vector<float>& all, size_t channels) {
  std::vector<float> rows = rows_in_cells(cells, all, channels);
  for (float& each : rows) each = each == 0 ? 7.0f : each;
  return rows;
}

void check(const DeviceProfile& profile, const Graph& graph, const CellLayout& cells, uint32_t columns,
           const std::vector<std::pair<TensorId, ActivationRef>>& inputs, TensorId out,
           const std::vector<float>& expected, double tolerance) {
  const uint32_t rows = pictures * cells.count(), capacity = rows + 3;
  const ActivationRef result = blank_rows(rows + 1, columns, 0, cells.whole ? ROWS_OUTPUTS : ROWS_TOKENS);
  auto places = inputs;
  places.emplace_back(out, result);
  run_graph(profile, graph, inputs_step(inputs_of(cells), capacity), capacity, places, pictures);
  check_rows(result, {expected.begin(), expected.end()}, tolerance);
  TestGpu::get().clear();
}

void run_attention(const DeviceProfile& profile, const CellAttention& own, uint32_t channels,
                   bool has_table = true, bool has_scores = false) {
  CAPTURE(profile.workgroup);
  CAPTURE(own.describe());
  const uint32_t columns = own.cells.pixels() * channels;
  const size_t size = size_t{own.cells.height} * own.cells.width * channels;
  std::vector<float> parts[3];
  for (uint32_t i = 0; i < 3; ++i) parts[i] = random_values(pictures * size, i + 1, 2);
  const uint32_t span = 2 * own.window - 1;
  const std::vector<float> key_bias = random_values(channels, 5), value_bias = random_values(channels, 6);
  std::vector<float> table = random_values(size_t{span} * span * own.heads, 4);
  if (!has_table) std::ranges::fill(table, 0.0f);
  const uint32_t score_columns = own.cells.pixels() * own.heads * own.score_columns();
  std::vector<float> scores, attended;
  if (has_scores) scores = random_values(size_t{pictures} * score_columns, 7, 2);
  for (size_t i = 0; i < pictures; ++i) {
    const auto of = [&](uint32_t part) { return std::span(parts[part]).subspan(i * size, size); };
    const std::vector<float> one = window_attention_reference(
        own,
        {of(0), of(1), of(2), table, key_bias, value_bias,
         std::span(scores).subspan(i * scores.size() / pictures, scores.size() / pictures)},
        channels);
    attended.insert(attended.end(), one.begin(), one.end());
  }
  Graph graph;
  TensorView tensors[3];
  std::vector<std::pair<TensorId, ActivationRef>> inputs;
  for (const std::vector<float>& part : parts) {
    inputs.emplace_back(graph.add_tensor({"in", RowKind::tokens, columns}),
                        upload_rows(garbled(own.cells, part, channels), columns));
  }
  const WeightId keys = weight_of(graph, tensors[0], key_bias, {channels}),
                 values = weight_of(graph, tensors[1], value_bias, {channels});
  std::optional<WeightId> biases;
  if (has_table) biases = weight_of(graph, tensors[2], table, {uint64_t{span} * span, own.heads});
  std::optional<TensorId> of_distances;
  if (has_scores) {
    inputs.emplace_back(graph.add_tensor({"scores", RowKind::tokens, score_columns}),
                        upload_rows(scores, score_columns));
    of_distances = inputs.back().first;
  }
  const TensorId out = cell_attention(graph, "out", inputs[0].first, inputs[1].first, inputs[2].first, own,
                                      keys, values, biases, of_distances);
  check(profile, graph, own.cells, columns, inputs, out, rows_in_cells(own.cells, attended, channels), 1e-5);
}

} // namespace

TEST_CASE("pixels attend to those of their window") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [cells, heads, channels, window, shift] :
         {std::tuple(CellLayout{4, 4, 2}, 2u, 8u, 2u, 0u),
          {{4, 8, 2}, 2u, 8u, 2u, 1u},
          {{8, 8, 4}, 4u, 16u, 4u, 2u},
          {{7, 10, 4}, 3u, 24u, 3u, 1u},
          {{5, 6, 1}, 2u, 40u, 5u, 0u},
          {CellLayout::of_pictures(7, 11), 3u, 24u, 3u, 0u},
          {CellLayout::of_pictures(4, 3), 1u, 8u, 5u, 0u},
          {{9, 6, 2}, 1u, 4u, 4u, 2u}}) {
      CellAttention own;
      own.cells = cells;
      own.heads = heads;
      own.window = window;
      own.shift = shift;
      run_attention(profile, own, channels);
      if (!cells.whole) continue;
      run_attention(profile, own, channels, false);
      run_attention(profile, own, channels, false, true);
    }
  }
}

TEST_CASE("pictures become cells of patches") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [height, width, patch_height, patch_width, side] :
         {std::array{8u, 12u, 2u, 2u, 2u}, {9u, 14u, 2u, 3u, 4u}, {5u, 4u, 1u, 2u, 1u}}) {
      CAPTURE(height);
      CellPatches own;
      own.height = height;
      own.width = width;
      own.patch_height = patch_height;
      own.patch_width = patch_width;
      own.cells = {(height + patch_height - 1) / patch_height, (width + patch_width - 1) / patch_width, side};
      const uint32_t size = own.channels * height * width, area = patch_height * patch_width;
      const std::vector<float> pixels = random_values(size_t{pictures} * size, 1);
      std::vector<float> patches;
      for (uint32_t picture = 0; picture < pictures; ++picture) {
        for (uint32_t i = 0; i < own.cells.height * own.cells.width * own.channels * area; ++i) {
          const uint32_t patch = i / (own.channels * area), channel = i / area % own.channels;
          const uint32_t y = patch / own.cells.width * patch_height + i % area / patch_width;
          const uint32_t x = patch % own.cells.width * patch_width + i % patch_width;
          const size_t at = size_t{picture} * size + (size_t{channel} * height + y) * width + x;
          patches.push_back(y < height && x < width ? pixels[at] : 0);
        }
      }
      Graph graph;
      const TensorId in = graph.input("pixels", RowKind::outputs, size);
      const TensorId out = cell_patches(graph, "out", in, own);
      const uint32_t columns = own.channels * area;
      check(profile, graph, own.cells, own.cells.pixels() * columns,
            {{in, upload_rows(pixels, size, 32, false, ROWS_OUTPUTS)}}, out,
            rows_in_cells(own.cells, patches, columns), 0);
    }
  }
}

TEST_CASE("a bias, an activation and a residual of pixels") {
  constexpr uint32_t channels = 12;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [adds, cells] : {std::pair(false, CellLayout{5, 7, 4}),
                                      {true, CellLayout{5, 7, 4}},
                                      {true, CellLayout::of_pictures(5, 7)}}) {
      CellSums own;
      own.cells = cells;
      own.activation = adds ? Activation::none : Activation::gelu;
      const size_t size = size_t{own.cells.height} * own.cells.width * channels;
      const std::vector<float> x = random_values(pictures * size, 1, 3),
                               residual = random_values(pictures * size, 2),
                               bias = random_values(channels, 3);
      std::vector<float> sums;
      for (size_t i = 0; i < x.size(); ++i)
        sums.push_back(
            static_cast<float>(activation_reference(own.activation, double{x[i]} + bias[i % channels]) +
                               (adds ? residual[i] : 0)));
      const uint32_t columns = own.cells.pixels() * channels;
      Graph graph;
      TensorView tensor;
      const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns}),
                     more = graph.add_tensor({"residual", RowKind::tokens, columns});
      const TensorId out = cell_sums(graph, "out", in, adds ? std::optional(more) : std::nullopt, own,
                                     weight_of(graph, tensor, bias, {channels}));
      check(profile, graph, own.cells, columns,
            {{in, upload_rows(garbled(own.cells, x, channels), columns)},
             {more, upload_rows(garbled(own.cells, residual, channels), columns)}},
            out, rows_in_cells(own.cells, sums, channels), 1e-6);
    }
  }
}
