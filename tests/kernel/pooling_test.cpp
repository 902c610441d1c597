#include "kernel/pooling/pooling.h"

#include <cstring>

#include <doctest/doctest.h>

#include "kernel/inputs_step.h"
#include "kernel/pooling_reference.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// The means of inputs whose rows are `x`, left for the caller to look at.
ActivationRef run_mean(const DeviceProfile& profile, const std::vector<float>& x, uint32_t columns,
                       const std::vector<StepInput>& inputs, bool view = false, bool last = false) {
  const uint32_t rows = rows_of(inputs), capacity = rows + static_cast<uint32_t>(inputs.size()) + 1;
  Graph graph;
  const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
  const TensorId out = last ? last_row(graph, "last", in) : mean_rows(graph, "mean", in);
  CHECK(graph.tensor(out).rows == RowKind::outputs);
  const ActivationRef result =
      blank_rows(static_cast<uint32_t>(inputs.size()) + 1, columns, 32, ROWS_OUTPUTS);
  std::vector<float> padded = x;
  padded.resize(size_t{rows + 1} * columns, not_a_number); // a row that no input has
  run_graph(profile, graph, inputs_step(inputs, capacity), capacity,
            {{in, upload_rows(padded, columns, 32, view)}, {out, result}});
  return result;
}

void check_mean(const DeviceProfile& profile, uint32_t columns, const std::vector<StepInput>& inputs,
                bool view = false, double tolerance = 3e-6) {
  CAPTURE(profile.workgroup);
  CAPTURE(columns);
  const std::vector<float> x = random_values(size_t{rows_of(inputs)} * columns, columns);
  std::vector<double> expected;
  size_t at = 0;
  for (const StepInput& input : inputs) {
    const size_t size = size_t{input.rows} * columns;
    const std::vector<double> mean = mean_reference(std::span(x).subspan(at, size), columns);
    expected.insert(expected.end(), mean.begin(), mean.end());
    at += size;
  }
  check_rows(run_mean(profile, x, columns, inputs, view), expected, tolerance, 1e-2);
  TestGpu::get().clear();
}

void check_last(const DeviceProfile& profile, uint32_t columns, const std::vector<StepInput>& inputs) {
  const std::vector<float> x = random_values(size_t{rows_of(inputs)} * columns, columns);
  std::vector<double> expected;
  size_t row = 0;
  for (const StepInput& input : inputs) {
    row += input.rows;
    for (uint32_t i = 0; i < columns; ++i) expected.push_back(input.rows ? x[(row - 1) * columns + i] : 0.0f);
  }
  check_rows(run_mean(profile, x, columns, inputs, false, true), expected, 0, 1e-2);
  TestGpu::get().clear();
}

void check_unit_length(const DeviceProfile& profile, uint32_t columns, uint32_t count, uint32_t rows_kind,
                       float scale, bool view) {
  CAPTURE(profile.workgroup);
  CAPTURE(columns);
  TestGpu& gpu = TestGpu::get();
  const uint32_t bucket = count + 2;
  const std::vector<float> x = random_values(size_t{bucket} * columns, columns + count, scale);
  std::vector<double> expected;
  for (uint32_t row = 0; row < count; ++row) {
    const auto unit = unit_length_reference(std::span(x).subspan(size_t{row} * columns, columns));
    expected.insert(expected.end(), unit.begin(), unit.end());
  }
  const bool tokens = rows_kind == ROWS_TOKENS;
  Graph graph;
  const TensorId in = graph.add_tensor({"x", tokens ? RowKind::tokens : RowKind::outputs, columns});
  const TensorId out = unit_length(graph, "unit", in);
  const ActivationRef result = blank_rows(bucket, columns, 32, rows_kind);
  run_graph(profile, graph, tokens ? gpu.step(count) : gpu.step(bucket, count), bucket,
            {{in, upload_rows(x, columns, 32, view, rows_kind)}, {out, result}});
  check_rows(result, expected, 1e-6);
  gpu.clear();
}

} // namespace

TEST_CASE("mean over the rows of each input") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 257u, 768u}) {
      for (bool view : {false, true}) {
        check_mean(profile, columns, {{1, 0}}, view);
        check_mean(profile, columns, {{15, 0}, {16, 16}, {17, 32}, {1, 56}, {37, 64}}, view);
      }
    }
  }
}

TEST_CASE("mean of inputs without rows is zero, and of no inputs touches nothing") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    check_mean(profile, 33, {{0, 0}, {3, 8}, {0, 16}, {2, 24}, {0, 32}});
    check_mean(profile, 33, {{0, 0}});
    check_mean(profile, 33, {});
  }
}

TEST_CASE("mean of more rows than some drivers let a loop have rounds") {
  for (const DeviceProfile& profile : profiles_to_test())
    check_mean(profile, 5, {{3, 0}, {70001, 8}}, false, 2e-5);
}

TEST_CASE("mean of an input is the same bits wherever its rows lie in the step") {
  TestGpu& gpu = TestGpu::get();
  constexpr uint32_t columns = 100, rows = 43;
  const std::vector<float> x = random_values(size_t{columns} * rows, 1);
  const auto mean_after = [&](const DeviceProfile& profile, uint32_t before, uint32_t first) {
    std::vector<float> all = random_values(size_t{before} * columns, 2);
    all.insert(all.end(), x.begin(), x.end());
    const ActivationRef result =
        run_mean(profile, all, columns, {{before, 0}, {rows, first}, {0, first + 64}});
    std::vector<float> values = gpu.read<float>(result.buffer);
    values.erase(values.begin(), values.begin() + result.stride);
    values.resize(columns);
    gpu.clear();
    return values;
  };
  for (const DeviceProfile& profile : profiles_to_test()) {
    const std::vector<float> expected = mean_after(profile, 0, 8);
    for (uint32_t before : {1u, 13u, 16u, 100u}) {
      const std::vector<float> got = mean_after(profile, before, 8 * before + 8);
      CHECK(std::memcmp(got.data(), expected.data(), columns * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("one row of each input, the last, that of a token or that of a number") {
  TestGpu& gpu = TestGpu::get();
  const std::vector<StepInput> inputs = {{3, 0, 7}, {1, 8, 9}, {0, 16, 0}, {300, 24, 4}};
  const uint32_t rows = rows_of(inputs), capacity = rows + 1;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 33u, 260u}) {
      const std::vector<float> x = random_values(size_t{rows} * columns, columns);
      for (const PickRows::Rule rule : {PickRows::Rule::last, PickRows::Rule::first_of,
                                        PickRows::Rule::largest, PickRows::Rule::numbered}) {
        const bool numbered = rule == PickRows::Rule::numbered;
        PickRows operation;
        operation.rule = rule;
        operation.token = numbered ? 1 : 4;
        Graph graph;
        const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
        const TensorId out = pick_rows(graph, "picked", in, operation);
        const ActivationRef result = blank_rows(4, columns, 32, ROWS_OUTPUTS);
        run_graph(profile, graph, inputs_step(inputs, capacity), capacity,
                  {{in, upload_rows(x, columns, 32)}, {out, result}});
        // All rows of an input have one token, so that the first of the largest is the first.
        const bool last = rule == PickRows::Rule::last, first_of = rule == PickRows::Rule::first_of;
        const std::vector<int64_t> picked = {last || first_of ? 2 : numbered, 3, -1,
                                             last       ? 303
                                             : numbered ? 5
                                                        : 4};
        std::vector<double> expected;
        for (int64_t row : picked) {
          for (uint32_t column = 0; column < columns; ++column)
            expected.push_back(row < 0 ? 0 : x[static_cast<size_t>(row) * columns + column]);
        }
        check_rows(result, expected, 0);
        gpu.clear();
      }
    }
  }
}

TEST_CASE("rows made of unit length") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 257u, 768u, 4100u}) {
      for (bool view : {false, true}) check_unit_length(profile, columns, 3, ROWS_OUTPUTS, 1, view);
    }
    check_unit_length(profile, 65, 9, ROWS_TOKENS, 1000, false);
    check_unit_length(profile, 65, 0, ROWS_TOKENS, 1, false);
    check_unit_length(profile, 65, 1, ROWS_OUTPUTS, 1e-14f, false); // shorter than what is divided by
    check_unit_length(profile, 65, 1, ROWS_OUTPUTS, 0, false);
  }
}

TEST_CASE("last row: of each input, whatever is beside it") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 31u, 64u, 257u})
      check_last(profile, columns, {{3, 8}, {0, 64}, {1, 64}, {17, 128}});
  }
}
