#include "kernel/position/sinusoid.h"

#include <doctest/doctest.h>

#include "kernel/inputs_step.h"
#include "kernel/run_graph.h"
#include "kernel/sinusoid_reference.h"

using namespace pumice;

namespace {

// Adds the encodings of these positions to rows of a step whose texts begin at `first`.
void run(const DeviceProfile& profile, uint32_t columns, const Sinusoids& sinusoids,
         const std::vector<uint32_t>& positions, uint32_t first, bool view) {
  CAPTURE(profile.workgroup);
  CAPTURE(columns);
  CAPTURE(static_cast<int>(sinusoids.layout));
  CAPTURE(static_cast<int>(sinusoids.spacing));
  CAPTURE(sinusoids.first);
  TestGpu& gpu = TestGpu::get();
  const uint32_t bucket = static_cast<uint32_t>(positions.size()) + 2;
  const std::vector<float> x = random_values(size_t{bucket} * columns, columns);
  std::vector<StepRow> rows;
  std::vector<double> expected;
  for (size_t row = 0; row < positions.size(); ++row) {
    rows.push_back({9999, first + positions[row], 0, first});
    const std::vector<double> encoding = sinusoid_reference(positions[row], columns, sinusoids);
    for (size_t i = 0; i < columns; ++i) expected.push_back(x[row * columns + i] + encoding[i]);
  }
  Graph graph;
  const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
  const TensorId out = sinusoidal_positions(graph, "positions", in, sinusoids);
  const ActivationRef result = blank_rows(bucket, columns, 32);
  run_graph(profile, graph, gpu.step(rows, {}, bucket), bucket,
            {{in, upload_rows(x, columns, 32, view)}, {out, result}});
  check_rows(result, expected, 1e-6);
  const std::vector<float> got = gpu.read<float>(result.buffer);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(got[i / columns * result.stride + i % columns] - expected[i]));
  }
  CHECK(worst < 5e-7);
  gpu.clear();
}

} // namespace

TEST_CASE("sinusoidal positions in both layouts") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (SinusoidLayout layout : {SinusoidLayout::interleaved, SinusoidLayout::halves}) {
      for (uint32_t columns : {1u, 2u, 7u, 32u, 33u, 64u, 257u, 512u}) {
        run(profile, columns, {layout}, {0, 1, 2, 3, 17, 511}, 0, false);
        run(profile, columns, {layout}, {0, 1, 5}, 24, true);
      }
      run(profile, 16, {layout}, {}, 0, false);
    }
  }
}

TEST_CASE("sinusoidal positions that begin later, up to the last frequency") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (SinusoidLayout layout : {SinusoidLayout::interleaved, SinusoidLayout::halves}) {
      for (uint32_t columns : {4u, 6u, 34u, 64u, 254u}) {
        run(profile, columns, {layout, SinusoidSpacing::closed, 2}, {0, 1, 2, 17, 511}, 0, false);
        run(profile, columns, {layout, SinusoidSpacing::open, 7}, {0, 1, 5}, 24, true);
      }
      run(profile, 64, {layout, SinusoidSpacing::closed, 2}, {1000003, 123456789}, 8, false);
    }
  }
}

TEST_CASE("sinusoidal positions far out") {
  // Where a 32-bit angle would be off by a thousandth and more.
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (SinusoidLayout layout : {SinusoidLayout::interleaved, SinusoidLayout::halves}) {
      run(profile, 65, {layout}, {65536, 131071, 1000003, 123456789}, 8, false);
    }
  }
}
