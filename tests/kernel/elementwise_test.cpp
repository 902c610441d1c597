#include "kernel/elementwise/elementwise.h"

#include <doctest/doctest.h>

#include "kernel/elementwise_reference.h"
#include "kernel/products/rows.h"
#include "kernel/run_graph.h"
#include "shaders/common/step.h"

using namespace pumice;

namespace {

constexpr Activation all_activations[] = {Activation::none,      Activation::silu, Activation::gelu,
                                          Activation::gelu_tanh, Activation::relu, Activation::tanh,
                                          Activation::quick_gelu};

struct Case {
  ElementwiseKind kind = ElementwiseKind::add;
  Activation activation = Activation::none;
  float amount = 1;
  float least = 0;
  XieluCurve curve = {};
  uint32_t columns = 64;
  uint32_t bucket = 3;
  uint32_t count = 3;
  bool view = false;
  uint32_t rows_kind = ROWS_TOKENS;
};

void run(const DeviceProfile& profile, const Case& c) {
  CAPTURE(profile.workgroup);
  CAPTURE(static_cast<int>(c.kind));
  CAPTURE(std::string(to_string(c.activation)));
  CAPTURE(c.columns);
  TestGpu& gpu = TestGpu::get();
  const std::vector<float> a = random_values(size_t{c.bucket} * c.columns, c.columns, 6);
  const bool by_row = c.kind == ElementwiseKind::gate_rows;
  const uint32_t b_columns = by_row ? 1 : c.columns;
  const std::vector<float> b = random_values(size_t{c.bucket} * b_columns, c.columns + 1);
  std::vector<double> expected;
  for (size_t i = 0; i < size_t{c.count} * c.columns; ++i) {
    const double activated = activation_reference(c.activation, a[i]);
    expected.push_back(c.kind == ElementwiseKind::add     ? double{a[i]} + b[i]
                       : c.kind == ElementwiseKind::gate  ? activated * b[i]
                       : c.kind == ElementwiseKind::scale ? double{c.amount} * a[i]
                       : by_row                           ? a[i] / (1 + std::exp(-double{b[i / c.columns]}))
                       : c.kind == ElementwiseKind::soft_cap ? c.amount * std::tanh(a[i] / double{c.amount})
                       : c.kind == ElementwiseKind::clamp    ? std::clamp(a[i], c.least, c.amount)
                       : c.kind == ElementwiseKind::xielu    ? xielu_reference(c.curve, a[i])
                                                             : activated);
  }
  ElementwiseArgs args;
  args.kind = c.kind;
  args.activation = c.activation;
  args.amount = c.amount;
  args.least = c.least;
  args.curve = c.curve;
  args.a = upload_rows(a, c.columns, c.view ? 32 : 0, c.view, c.rows_kind);
  if (c.kind == ElementwiseKind::add || c.kind == ElementwiseKind::gate || by_row)
    args.b = upload_rows(b, b_columns, c.view ? 64 : 0, c.view, c.rows_kind);
  args.result = blank_rows(c.bucket, c.columns, 32, c.rows_kind);
  args.step = c.rows_kind == ROWS_TOKENS ? gpu.step(c.count) : gpu.step(c.bucket, c.count);
  gpu.run(elementwise(profile, args));
  check_rows(args.result, expected, 1e-6);
  gpu.clear();
}

} // namespace

TEST_CASE("add") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 64u, 80u, 257u, 768u, 4100u}) {
      for (uint32_t rows : {1u, 2u, 7u, 8u, 9u, 33u})
        run(profile, {.columns = columns, .bucket = rows, .count = rows});
      run(profile, {.columns = columns, .view = true});
    }
  }
}

TEST_CASE("gates and activations") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (Activation activation : all_activations) {
      for (uint32_t columns : {7u, 257u, 768u}) {
        for (ElementwiseKind kind : {ElementwiseKind::gate, ElementwiseKind::activate}) {
          run(profile, {.kind = kind, .activation = activation, .columns = columns});
          run(profile, {.kind = kind, .activation = activation, .columns = columns, .view = true});
        }
      }
    }
  }
}

TEST_CASE("xIELU") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const XieluCurve& curve : {XieluCurve{0.8f, 1.3f, 0.5f, -1e-6f}, {2, 0.5f, -0.25f, -0.5f}}) {
      for (uint32_t columns : {1u, 33u, 768u})
        run(profile, {.kind = ElementwiseKind::xielu, .curve = curve, .columns = columns});
    }
  }
}

TEST_CASE("gates of which few columns count") {
  constexpr uint32_t count = 3, bucket = 4;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [columns, deviations] : {std::pair(33u, 1.6f), {80u, 0.0f}, {257u, -0.5f}}) {
      CAPTURE(columns);
      const std::vector<float> a = random_values(size_t{bucket} * columns, 1, 3),
                               b = random_values(size_t{bucket} * columns, 2);
      std::vector<double> expected;
      for (uint32_t row = 0; row < count; ++row) {
        const auto gated = sparse_gate_reference(std::span(a).subspan(row * columns, columns), deviations);
        for (uint32_t i = 0; i < columns; ++i)
          expected.push_back(activation_reference(Activation::gelu_tanh, static_cast<float>(gated[i])) *
                             b[row * columns + i]);
      }
      Graph graph;
      const TensorId opened = graph.add_tensor({"a", RowKind::tokens, columns}),
                     up = graph.add_tensor({"b", RowKind::tokens, columns}),
                     out = sparse_gate(graph, "out", opened, up, Activation::gelu_tanh, deviations);
      const ActivationRef result = blank_rows(bucket, columns, 32);
      run_graph(profile, graph, TestGpu::get().step(count), bucket,
                {{opened, upload_rows(a, columns, 32, true)},
                 {up, upload_rows(b, columns, 64, true)},
                 {out, result}});
      check_rows(result, expected, 2e-6);
      TestGpu::get().clear();
    }
  }
}

TEST_CASE("scales, soft caps and clamps") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (float amount : {0.125f, 5.0f, 30.0f}) {
      for (uint32_t columns : {1u, 33u, 768u}) {
        for (ElementwiseKind kind :
             {ElementwiseKind::scale, ElementwiseKind::soft_cap, ElementwiseKind::clamp}) {
          run(profile, {.kind = kind, .amount = amount, .least = -0.5f * amount, .columns = columns});
          run(profile, {.kind = kind, .amount = amount, .columns = columns, .rows_kind = ROWS_OUTPUTS});
        }
      }
    }
  }
}

TEST_CASE("rows times the sigmoid of a number each") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 33u, 768u}) {
      run(profile, {.kind = ElementwiseKind::gate_rows, .columns = columns, .bucket = 9, .count = 9});
      run(profile, {.kind = ElementwiseKind::gate_rows, .columns = columns, .rows_kind = ROWS_OUTPUTS});
    }
  }
}

TEST_CASE("add of a step smaller than its bucket") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {0u, 1u, 5u}) {
      run(profile, {.columns = 33, .bucket = 9, .count = count});
      run(profile, {.columns = 33, .bucket = 9, .count = count, .rows_kind = ROWS_OUTPUTS});
    }
  }
}

TEST_CASE("activations are finite far from zero") {
  TestGpu& gpu = TestGpu::get();
  const std::vector<float> far = {-3e38f, -1e30f, -1e10f, -1000, -100, 100, 1000, 1e10f};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (Activation activation : all_activations) {
      CAPTURE(to_string(activation));
      ElementwiseArgs args;
      args.kind = ElementwiseKind::activate;
      args.activation = activation;
      args.a = upload_rows(far, 8);
      args.result = blank_rows(1, 8);
      args.step = gpu.step(1);
      gpu.run(elementwise(profile, args));
      const std::vector<float> got = gpu.read<float>(args.result.buffer);
      for (size_t i = 0; i < far.size(); ++i) {
        const double wanted = activation_reference(activation, far[i]);
        CAPTURE(far[i]);
        CHECK(std::abs(got[i] - wanted) <= 1e-6 * std::abs(far[i]));
      }
      gpu.clear();
    }
  }
}
