#include "kernel/convolution/convolution.h"

#include <doctest/doctest.h>

#include "kernel/convolution_reference.h"
#include "kernel/inputs_step.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

FrameWindows windows(uint32_t channels, uint32_t frames, uint32_t width, uint32_t stride, int32_t first) {
  FrameWindows operation;
  operation.channels = channels;
  operation.frames = frames;
  operation.width = width;
  operation.stride = stride;
  operation.first = first;
  return operation;
}

void run_frames(const DeviceProfile& profile, const FrameWindows& operation, uint32_t sounds,
                const std::vector<StepInput>& inputs) {
  CAPTURE(profile.workgroup);
  CAPTURE(operation.describe());
  TestGpu& gpu = TestGpu::get();
  const uint32_t size = operation.channels * operation.frames, rows = rows_of(inputs);
  const std::vector<float> features = random_values(size_t{size} * sounds, size);
  std::vector<double> expected;
  for (const StepInput& input : inputs) {
    const auto own = std::span(features).subspan(size_t{input.token} * size, size);
    for (uint32_t i = 0; i < input.rows; ++i) {
      const std::vector<double> row = frame_window_reference(own, operation, i);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  Graph graph;
  const TensorId in = graph.input("features", RowKind::outputs, size);
  const TensorId out = frame_windows(graph, "windows", in, operation);
  const ActivationRef result = blank_rows(rows + 1, operation.channels * operation.width, 32);
  run_graph(profile, graph, inputs_step(inputs, rows + 2), rows + 2,
            {{in, upload_rows(features, size, 32, false, ROWS_OUTPUTS)}, {out, result}});
  check_rows(result, expected, 0);
  gpu.clear();
}

void run_pairs(const DeviceProfile& profile, uint32_t columns, bool view,
               const std::vector<StepInput>& inputs) {
  CAPTURE(profile.workgroup);
  CAPTURE(columns);
  TestGpu& gpu = TestGpu::get();
  const uint32_t rows = rows_of(inputs);
  const std::vector<float> even = random_values(size_t{rows + 1} * columns, 1),
                           odd = random_values(size_t{rows + 1} * columns, 2);
  std::vector<double> expected;
  uint32_t row = 0;
  for (const StepInput& input : inputs) {
    for (uint32_t i = 0; i < input.rows; ++i, ++row) {
      const auto part = [&](const std::vector<float>& x, uint32_t at) {
        return std::span(x).subspan(size_t{at} * columns, columns);
      };
      const std::vector<double> out = pair_window_reference(
          i > 0 ? part(odd, row - 1) : std::span<const float>(), part(even, row), part(odd, row));
      expected.insert(expected.end(), out.begin(), out.end());
    }
  }
  Graph graph;
  const TensorId even_id = graph.add_tensor({"even", RowKind::tokens, columns});
  const TensorId odd_id = graph.add_tensor({"odd", RowKind::tokens, columns});
  const TensorId out = pair_windows(graph, "pairs", even_id, odd_id);
  const ActivationRef result = blank_rows(rows + 1, columns * 3, 32);
  run_graph(profile, graph, inputs_step(inputs, rows + 2), rows + 2,
            {{even_id, upload_rows(even, columns, 32, view)},
             {odd_id, upload_rows(odd, columns, 64, view)},
             {out, result}});
  check_rows(result, expected, 0);
  gpu.clear();
}

} // namespace

TEST_CASE("windows over frames") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (int32_t first : {-1, 0}) {
      run_frames(profile, windows(80, 100, 3, 2, first), 1, {{50, 0}});
      run_frames(profile, windows(7, 11, 3, 2, first), 3, {{6, 0, 2}, {5, 8, 0}, {1, 16, 1}});
    }
    run_frames(profile, windows(1, 1, 1, 1, 0), 1, {{1, 0}});
    run_frames(profile, windows(33, 5, 5, 1, -2), 2, {{5, 24, 1}, {7, 0, 0}});
    run_frames(profile, windows(2, 4, 9, 3, -40), 1, {{20, 0}});
    run_frames(profile, windows(3, 4, 3, 2, -1), 1, {});
  }
}

TEST_CASE("windows over features of another size are refused") {
  Graph graph;
  const TensorId in = graph.input("features", RowKind::outputs, 99);
  const TensorId out = frame_windows(graph, "windows", in, windows(10, 10, 3, 2, -1));
  TestLowering lowering(TestGpu::get().profile, graph, {});
  lowering.place(in, {{}, 1, ROWS_OUTPUTS, 99, 128});
  lowering.place(out, {{}, 1, ROWS_TOKENS, 30, 32});
  CHECK(!lowering.lower(0).ok());
}

TEST_CASE("windows over pairs of frames") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 64u, 384u}) {
      for (bool view : {false, true}) {
        run_pairs(profile, columns, view, {{1, 0}});
        run_pairs(profile, columns, view, {{5, 0}, {1, 8}, {0, 16}, {9, 16}});
      }
    }
    run_pairs(profile, 3, false, {});
  }
}
