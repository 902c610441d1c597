#include "kernel/streams/streams.h"

#include <doctest/doctest.h>

#include "kernel/products/rows.h"
#include "kernel/run_graph.h"
#include "kernel/streams/streams_reference.h"
#include "shaders/common/step.h"

using namespace pumice;

namespace {

struct Shape {
  uint32_t streams = 4, columns = 64, active = 0;
};
constexpr Shape shapes[] = {{4, 64, 0}, {3, 36, 2}, {2, 260, 1}, {16, 4, 5}};
constexpr uint32_t count = 3, bucket = 5; // rows that are there, and that there is room for

RowKind kind_of(uint32_t rows_kind) {
  return rows_kind == ROWS_TOKENS ? RowKind::tokens : RowKind::outputs;
}

std::span<const float> row_of(const std::vector<float>& values, size_t row, size_t columns) {
  return std::span(values).subspan(row * columns, columns);
}

// A graph of one operation, and the rows that its inputs have.
class Run {
public:
  Run(const DeviceProfile& profile, uint32_t rows_kind) : profile_(profile), rows_kind_(rows_kind) {}

  TensorId input(const std::vector<float>& values, uint32_t columns) {
    const TensorId id = graph.add_tensor({"in", kind_of(rows_kind_), columns});
    places_.emplace_back(id, upload_rows(values, columns, 32, true, rows_kind_));
    return id;
  }

  WeightId matrix(const std::vector<float>& values, uint32_t columns) {
    tensor_ = {"coefficients",
               TensorType::f32,
               {values.size() / columns, columns},
               std::as_bytes(std::span(values)),
               {}};
    return graph.weight(WeightView::whole(tensor_), "");
  }

  void check(TensorId out, const std::vector<double>& expected) {
    TestGpu& gpu = TestGpu::get();
    const ActivationRef result = blank_rows(bucket, graph.tensor(out).columns, 32, rows_kind_);
    places_.emplace_back(out, result);
    const BufferRef step = rows_kind_ == ROWS_TOKENS ? gpu.step(count) : gpu.step(bucket, count);
    run_graph(profile_, graph, step, bucket, places_);
    check_rows(result, expected, 2e-6);
    gpu.clear();
  }

  Graph graph;

private:
  const DeviceProfile& profile_;
  const uint32_t rows_kind_;
  std::vector<std::pair<TensorId, ActivationRef>> places_;
  TensorView tensor_;
};

template <class Test>
void for_each_case(Test test) {
  for (const DeviceProfile& profile : profiles_to_test()) {
    CAPTURE(profile.workgroup);
    uint32_t rows_kind = ROWS_TOKENS;
    for (const Shape& shape : shapes) {
      CAPTURE(shape.streams);
      test(shape, Run(profile, rows_kind));
      rows_kind = rows_kind == ROWS_TOKENS ? ROWS_OUTPUTS : ROWS_TOKENS;
    }
  }
}

} // namespace

TEST_CASE("streams are predicted from each other") {
  for_each_case([](const Shape& shape, Run run) {
    const uint32_t all = shape.streams * shape.columns;
    const std::vector<float> x = random_values(size_t{bucket} * all, 1),
                             routed = random_values(size_t{bucket} * shape.streams, 2, 40),
                             matrix = random_values(size_t{shape.streams} * shape.streams * shape.streams, 3);
    std::vector<double> expected;
    for (uint32_t row = 0; row < count; ++row) {
      const auto factors = stream_factors(matrix, row_of(routed, row, shape.streams), 0.125);
      const auto y = predict_reference(row_of(x, row, all), factors, shape.streams);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    const TensorId streams = run.input(x, all), numbers = run.input(routed, shape.streams);
    run.check(predict_streams(run.graph, "out", streams, numbers, 0.125f, run.matrix(matrix, shape.streams),
                              shape.streams),
              expected);
  });
}

TEST_CASE("streams are corrected by what was computed of one") {
  for_each_case([](const Shape& shape, Run run) {
    const uint32_t all = shape.streams * shape.columns;
    const std::vector<float> x = random_values(size_t{bucket} * all, 1),
                             routed = random_values(size_t{bucket} * shape.streams, 2),
                             computed = random_values(size_t{bucket} * shape.columns, 3),
                             matrix = random_values(size_t{shape.streams} * shape.streams, 4);
    std::vector<double> expected;
    for (uint32_t row = 0; row < count; ++row) {
      const auto factors = stream_factors(matrix, row_of(routed, row, shape.streams), 3);
      const auto y =
          correct_reference(row_of(x, row, all), row_of(computed, row, shape.columns), factors, shape.active);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    MixStreams operation;
    operation.streams = shape.streams;
    operation.active = shape.active;
    operation.scale = 3;
    const TensorId streams = run.input(x, all), numbers = run.input(routed, shape.streams),
                   made = run.input(computed, shape.columns);
    run.check(correct_streams(run.graph, "out", streams, numbers, made, run.matrix(matrix, shape.streams),
                              operation),
              expected);
  });
}

TEST_CASE("columns are added to all streams but the first") {
  for_each_case([](const Shape& shape, Run run) {
    const uint32_t all = shape.streams * shape.columns;
    const std::vector<float> x = random_values(size_t{bucket} * all, 1),
                             added = random_values(size_t{bucket} * shape.columns, 2);
    std::vector<double> expected;
    for (size_t i = 0; i < size_t{count} * all; ++i) {
      const size_t row = i / all, column = i % all;
      const float more = column < shape.columns ? 0 : added[row * shape.columns + column % shape.columns];
      expected.push_back(double{x[i]} + more);
    }
    const TensorId streams = run.input(x, all), columns = run.input(added, shape.columns);
    run.check(add_to_streams(run.graph, "out", streams, columns, shape.streams), expected);
  });
}

TEST_CASE("streams get the size of the first, and their mean") {
  for (const bool mean : {false, true}) {
    CAPTURE(mean);
    for_each_case([mean](const Shape& shape, Run run) {
      const uint32_t further = (shape.streams - 1) * shape.columns;
      const std::vector<float> first = random_values(size_t{bucket} * shape.columns, 1, 7);
      std::vector<float> others = random_values(size_t{bucket} * further, 2);
      // Of a row, one that is smaller than what counts.
      for (uint32_t i = 0; i < shape.columns; ++i) others[further + i] *= 1e-4f;
      std::vector<double> expected;
      for (uint32_t row = 0; row < count; ++row) {
        const auto y = match_reference(row_of(first, row, shape.columns), row_of(others, row, further));
        for (uint32_t i = 0; i < (mean ? shape.columns : y.size()); ++i) {
          double value = y[i];
          for (size_t at = i + shape.columns; mean && at < y.size(); at += shape.columns) value += y[at];
          expected.push_back(mean ? value / shape.streams : value);
        }
      }
      const TensorId one = run.input(first, shape.columns), rest = run.input(others, further);
      run.check(mean ? mean_stream(run.graph, "out", one, rest, shape.streams)
                     : match_streams(run.graph, "out", one, rest, shape.streams),
                expected);
    });
  }
}
