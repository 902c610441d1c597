#include "kernel/image/image.h"

#include <doctest/doctest.h>

#include "kernel/image_reference.h"
#include "kernel/inputs_step.h"
#include "kernel/products/weights.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

struct Case {
  PatchShape shape;
  uint32_t pictures = 1;
  uint32_t lead = 0;
  std::vector<StepInput> inputs;
};

void run(const DeviceProfile& profile, const Case& c) {
  CAPTURE(profile.workgroup);
  CAPTURE(c.shape.columns());
  TestGpu& gpu = TestGpu::get();
  const uint32_t size = c.shape.channels * c.shape.height * c.shape.width, rows = rows_of(c.inputs);
  const std::vector<float> pixels = random_values(size_t{size} * c.pictures, size);
  std::vector<double> expected;
  for (const StepInput& input : c.inputs) {
    for (uint32_t i = 0; i < input.rows; ++i) {
      std::vector<double> row(c.shape.columns());
      if (i >= c.lead && i - c.lead < c.shape.count() && input.token < c.pictures) {
        row =
            patch_reference(std::span(pixels).subspan(size_t{input.token} * size, size), c.shape, i - c.lead);
      }
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  Graph graph;
  const TensorId input = graph.input("pixels", RowKind::outputs, size);
  const TensorId out = patches(graph, "patches", input, c.shape, c.lead);
  CHECK(graph.tensor(out).columns == c.shape.columns());
  const ActivationRef result = blank_rows(rows + 2, c.shape.columns(), 32);
  const BufferRef step = inputs_step(c.inputs, rows + 3);
  run_graph(profile, graph, step, rows + 3,
            {{input, upload_rows(pixels, size, 32, false, ROWS_OUTPUTS)}, {out, result}});
  check_rows(result, expected, 0);
  gpu.clear();
}

void run_windows(const DeviceProfile& profile, const PatchWindows& windows, uint32_t columns, bool view,
                 const std::vector<StepInput>& inputs) {
  CAPTURE(profile.workgroup);
  CAPTURE(windows.describe());
  CAPTURE(columns);
  TestGpu& gpu = TestGpu::get();
  const uint32_t rows = rows_of(inputs), patches = windows.lead + windows.height * windows.width;
  const std::vector<float> x = random_values(size_t{std::max(rows, 1u)} * columns, columns);
  const bool joined = windows.rule == PatchWindows::Rule::joined;
  const uint32_t wide = columns * (joined ? windows.window * windows.window : 1);
  std::vector<double> expected;
  size_t first = 0;
  for (const StepInput& input : inputs) {
    for (uint32_t i = 0; i < input.rows; ++i) {
      std::vector<double> row(wide);
      if (i < windows.count() && input.rows >= patches)
        row = window_reference(std::span(x).subspan((first + windows.lead) * columns), columns, windows, i);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    first += input.rows;
  }
  Graph graph;
  const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
  const TensorId out = patch_windows(graph, "windows", in, windows);
  CHECK(graph.tensor(out).columns == wide);
  const ActivationRef result = blank_rows(rows + 2, wide, 32);
  run_graph(profile, graph, inputs_step(inputs, rows + 3), rows + 3,
            {{in, upload_rows(x, columns, 32, view)}, {out, result}});
  check_rows(result, expected, joined ? 0 : 1e-6);
  gpu.clear();
}

PatchWindows windows_of(PatchWindows::Rule rule, uint32_t height, uint32_t width, uint32_t window) {
  PatchWindows windows;
  windows.rule = rule;
  windows.height = height;
  windows.width = width;
  windows.window = window;
  return windows;
}

} // namespace

TEST_CASE("windows of patches are joined or averaged") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto rule : {PatchWindows::Rule::joined, PatchWindows::Rule::averaged}) {
      for (const uint32_t columns : {1u, 5u, 32u, 67u}) {
        for (const bool view : {false, true}) {
          run_windows(profile, windows_of(rule, 1, 1, 1), columns, view, {{1, 0}});
          run_windows(profile, windows_of(rule, 4, 6, 2), columns, view, {{24, 0}, {24, 40}});
          run_windows(profile, windows_of(rule, 7, 5, 3), columns, view, {{35, 3}}); // edges are left
        }
      }
      run_windows(profile, windows_of(rule, 8, 8, 4), 33, false, {{64, 0}, {64, 70}, {64, 200}});
      run_windows(profile, windows_of(rule, 4, 4, 2), 8, false, {});
      PatchWindows after = windows_of(rule, 4, 6, 2);
      after.lead = 2;
      run_windows(profile, after, 33, false, {{26, 0}, {26, 40}});
    }
  }
}

TEST_CASE("windows that a grid has none of are refused") {
  for (const auto& [windows, columns] : {std::pair(windows_of(PatchWindows::Rule::joined, 2, 2, 3), 72u),
                                         {windows_of(PatchWindows::Rule::joined, 2, 2, 0), 8u},
                                         {windows_of(PatchWindows::Rule::averaged, 4, 4, 2), 32u}}) {
    Graph graph;
    const TensorId in = graph.add_tensor({"x", RowKind::tokens, 8});
    const TensorId out = patch_windows(graph, "windows", in, windows);
    TestLowering lowering(TestGpu::get().profile, graph, {});
    lowering.place(in, {{}, 1, ROWS_TOKENS, 8, 32});
    lowering.place(out, {{}, 1, ROWS_TOKENS, columns, 96});
    CHECK(!lowering.lower(0).ok());
  }
}

TEST_CASE("neighbouring rows of each input become one") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const uint32_t columns : {1u, 7u, 32u, 80u}) {
      for (const auto& each : {std::pair(1u, JoinPatches::Rule::joined),
                               {4u, JoinPatches::Rule::joined},
                               {9u, JoinPatches::Rule::joined},
                               {2u, JoinPatches::Rule::averaged},
                               {3u, JoinPatches::Rule::averaged}}) {
        const uint32_t joined = each.first;
        const JoinPatches::Rule rule = each.second;
        const bool averaged = rule == JoinPatches::Rule::averaged;
        CAPTURE(columns);
        CAPTURE(joined);
        CAPTURE(averaged);
        const uint32_t wide = averaged ? columns : joined * columns;
        const std::vector<StepInput> inputs = {{24, 0}, {4, 64}, {3, 128}, {9, 192}};
        const std::vector<float> x = random_values(size_t{40} * columns, columns);
        std::vector<double> expected;
        size_t first = 0;
        for (const StepInput& input : inputs) {
          const size_t whole = size_t{input.rows / joined} * joined * columns;
          const auto from = x.begin() + static_cast<ptrdiff_t>(first * columns);
          if (averaged) {
            for (size_t i = 0; i < whole / joined; ++i) {
              double sum = 0;
              for (size_t k = 0; k < joined; ++k)
                sum += from[static_cast<ptrdiff_t>((i / columns * joined + k) * columns + i % columns)];
              expected.push_back(sum / joined);
            }
          } else {
            expected.insert(expected.end(), from, from + static_cast<ptrdiff_t>(whole));
          }
          first += input.rows;
          expected.resize(first * wide);
        }
        Graph graph;
        const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
        const TensorId out = join_patches(graph, "joined", in, joined, rule);
        CHECK(graph.tensor(out).columns == wide);
        const ActivationRef result = blank_rows(42, wide, 32);
        run_graph(profile, graph, inputs_step(inputs, 43), 43,
                  {{in, upload_rows(x, columns, 32)}, {out, result}});
        check_rows(result, expected, averaged ? 1e-6 : 0);
        gpu.clear();
      }
    }
  }
}

// What a position has of a table's line, by the distance between them.
double share_of(double distance, GridPositions::Rule rule) {
  const double d = std::abs(distance);
  if (rule == GridPositions::Rule::linear) return std::max(0.0, 1 - d);
  if (d < 1) return (1.25 * d - 2.25) * d * d + 1;
  return d < 2 ? -0.75 * (((d - 5) * d + 8) * d - 4) : 0;
}

TEST_CASE("learned positions are interpolated to the size of each picture") {
  TestGpu& gpu = TestGpu::get();
  struct Picture {
    uint32_t height, width;
  };
  const std::vector<Picture> pictures = {{2, 5}, {1, 1}, {7, 3}, {13, 4}};
  uint32_t turn = 0;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& size : {std::pair(1u, 1u),
                             {7u, 2u},
                             {32u, 7u},
                             {76u, 4u},
                             {1u, 1u},
                             {7u, 2u},
                             {32u, 7u},
                             {76u, 4u},
                             {76u, 9u},
                             {76u, 9u},
                             {1u, 5u},
                             {32u, 2u}}) {
      using Rule = GridPositions::Rule;
      constexpr Rule rules[] = {Rule::linear, Rule::linear, Rule::linear, Rule::linear,
                                Rule::cubic,  Rule::cubic,  Rule::cubic,  Rule::cubic,
                                Rule::apart,  Rule::before, Rule::before, Rule::before};
      const auto rule = rules[turn++ % std::size(rules)];
      CAPTURE(rule);
      const uint32_t columns = size.first, side = size.second;
      CAPTURE(columns);
      CAPTURE(side);
      const bool apart = rule == GridPositions::Rule::apart;
      const TestWeight table(TensorType::f32, (apart ? 2 : side) * side, columns, columns);
      std::vector<std::array<uint32_t, 2>> rows; // the picture's size, the place in it
      std::vector<double> expected;
      const std::vector<float> x = random_values(size_t{100} * columns, columns);
      for (const Picture& picture : pictures) {
        for (uint32_t i = 0; i < picture.height * picture.width; ++i) {
          const uint32_t down = i / picture.width, across = i % picture.width;
          const auto line = [&](uint32_t place, uint32_t lines) {
            if (rule == GridPositions::Rule::cubic) return (place + 0.5) * side / lines - 0.5;
            return lines > 1 ? double{1} * place * (side - 1) / (lines - 1) : 0;
          };
          const double y = line(down, picture.height), z = line(across, picture.width);
          for (uint32_t column = 0; column < columns; ++column) {
            double value = x[rows.size() * columns + column];
            if (apart) {
              value += table.decoded(std::min(across, side - 1))[column];
              value += table.decoded(side + std::min(down, side - 1))[column];
              expected.push_back(value);
              continue;
            }
            if (rule == Rule::before) {
              const uint32_t corner = down * side / picture.height * side + across * side / picture.width;
              expected.push_back(value + table.decoded(corner)[column]);
              continue;
            }
            const int past = 2, end = static_cast<int>(side) + past; // lines beyond an edge are the edge's
            for (int above = -past; above < end; ++above) {
              for (int left = -past; left < end; ++left) {
                const double share = share_of(y - above, rule) * share_of(z - left, rule);
                const int corner = std::clamp(above, 0, static_cast<int>(side) - 1) * static_cast<int>(side) +
                                   std::clamp(left, 0, static_cast<int>(side) - 1);
                value += share * table.decoded(static_cast<uint64_t>(corner))[column];
              }
            }
            expected.push_back(value);
          }
          rows.push_back({picture.height << 16 | picture.width, down << 16 | across});
        }
      }
      const auto count = static_cast<uint32_t>(rows.size());
      const StepLayout layout = {count + 3};
      std::vector<uint32_t> block(layout.bytes() / 4);
      block[0] = count;
      for (uint32_t i = 0; i < count; ++i) {
        block[4 * (STEP_HEADER_QUADS + i)] = rows[i][0];
        block[4 * (layout.details() + i) + 2] = rows[i][1];
      }
      Graph graph;
      const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
      const TensorId out =
          grid_positions(graph, "positions", in, graph.weight(table.weight, "embedding"), side, rule);
      const ActivationRef result = blank_rows(count + 2, columns, 32);
      run_graph(profile, graph, gpu.upload(block), count + 3,
                {{in, upload_rows(x, columns, 32)}, {out, result}});
      check_rows(result, expected, 1e-6);
      gpu.clear();
    }
  }
}

TEST_CASE("patches of pictures") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t lead : {0u, 1u, 2u}) {
      run(profile, {{1, 1, 1, 1, 1}, 1, lead, {{1 + lead, 0, 0}}});
      run(profile, {{3, 6, 4, 3, 2}, 1, lead, {{4 + lead, 0, 0}}});
      run(profile, {{3, 32, 48, 16, 16}, 3, lead, {{6 + lead, 0, 1}, {6 + lead, 40, 0}, {6 + lead, 9, 2}}});
      run(profile, {{3, 11, 8, 3, 2}, 1, lead, {{12 + lead, 0, 0}}}); // two rows of pixels are left
      run(profile, {{1, 5, 7, 2, 3}, 2, lead, {{4 + lead, 2, 1}, {4 + lead, 20, 0}}});
      run(profile, {{2, 35, 14, 5, 7}, 2, lead, {{14 + lead, 3, 1}, {2 + lead, 20, 0}}});
    }
    run(profile, {{3, 4, 4, 2, 2}, 2, 1, {}});
  }
}

TEST_CASE("patches past the picture, and of a picture that there is not, are zeros") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    run(profile, {{3, 4, 4, 2, 2}, 2, 1, {{9, 0, 1}, {3, 0, 2}}});
  }
}

TEST_CASE("patches larger than the picture, or of another picture, are refused") {
  for (const auto& [shape, columns] : {std::pair(PatchShape{3, 1, 4, 2, 2}, 12u),
                                       {PatchShape{3, 4, 1, 2, 2}, 12u},
                                       {PatchShape{3, 4, 4, 2, 2}, 47u}}) {
    Graph graph;
    const TensorId input = graph.input("pixels", RowKind::outputs, columns);
    const TensorId out = patches(graph, "patches", input, shape, 0);
    TestLowering lowering(TestGpu::get().profile, graph, {});
    lowering.place(input, {{}, 1, ROWS_OUTPUTS, columns, 64});
    lowering.place(out, {{}, 1, ROWS_TOKENS, 12, 32});
    CHECK(!lowering.lower(0).ok());
  }
}

TEST_CASE("a token of the model's own in the first or second row of each input") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 192u, 769u}) {
      for (const auto& [view, place] : {std::pair(false, 0u), {true, 0u}, {false, 1u}}) {
        const std::vector<StepInput> inputs = {{3, 0}, {1, 8}, {0, 3}, {4, 16}};
        const TestWeight weight(TensorType::f32, 1, columns, columns);
        const std::vector<float> x = random_values(size_t{8} * columns, columns);
        std::vector<double> expected(x.begin(), x.end());
        const std::vector<uint32_t> replaced = place == 0 ? std::vector{0u, 3u, 4u} : std::vector{1u, 5u};
        for (uint32_t row : replaced) {
          const std::vector<float> token = weight.decoded(0);
          std::copy(token.begin(), token.end(), expected.begin() + row * columns);
        }
        Graph graph;
        const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
        const TensorId out = lead_token(graph, "lead", in,
                                        graph.weight(WeightView::transpose(weight.view), "embedding"), place);
        const ActivationRef result = blank_rows(9, columns, 32);
        run_graph(profile, graph, inputs_step(inputs, 11), 11,
                  {{in, upload_rows(x, columns, 32, view)}, {out, result}});
        check_rows(result, expected, 0);
        gpu.clear();
      }
    }
  }
}

TEST_CASE("a leading token of another size is refused") {
  const TestWeight weight(TensorType::f32, 1, 31, 1);
  Graph graph;
  const TensorId in = graph.add_tensor({"x", RowKind::tokens, 32});
  const TensorId out =
      lead_token(graph, "lead", in, graph.weight(WeightView::transpose(weight.view), "embedding"));
  TestLowering lowering(TestGpu::get().profile, graph, {});
  for (TensorId id : {in, out}) lowering.place(id, {{}, 1, ROWS_TOKENS, 32, 32});
  CHECK(!lowering.lower(0).ok());
}
