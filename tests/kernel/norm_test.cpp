#include "kernel/norm/norm.h"

#include <doctest/doctest.h>

#include "kernel/norm_reference.h"
#include "kernel/products/rows.h"
#include "shaders/common/step.h"
#include "tools/pumice/bench/timed_cases.h"

using namespace pumice;

namespace {

struct Case {
  NormKind kind = NormKind::rms;
  bool bias = false;
  uint32_t columns = 64;
  uint32_t bucket = 1; // rows of the tensors
  uint32_t count = 1;  // rows of the step
  float mean = 0;      // of x
  float eps = 1e-5f;
  float offset = 0;
  bool view = false;
  uint32_t rows_kind = ROWS_TOKENS;
  uint32_t groups = 1; // `columns` are those of all
};

void run(const DeviceProfile& profile, const Case& c, double tolerance = 1e-6) {
  CAPTURE(profile.workgroup);
  CAPTURE(static_cast<int>(c.kind));
  CAPTURE(c.columns);
  CAPTURE(c.count);
  CAPTURE(c.groups);
  TestGpu& gpu = TestGpu::get();
  std::vector<float> x = random_values(size_t{c.bucket} * c.columns, c.columns + c.count);
  for (float& v : x) v += c.mean;
  const uint32_t own = c.columns / c.groups; // of a group
  std::vector<float> weight = random_values(own, 2), bias = random_values(own, 3);
  if (!c.bias) bias.clear();

  std::vector<double> expected;
  for (uint32_t group = 0; group < c.count * c.groups; ++group) {
    const std::span<const float> from(x.data() + size_t{group} * own, own);
    const std::vector<double> y = c.kind == NormKind::rms ? rms_norm_reference(from, weight, c.eps, c.offset)
                                                          : layer_norm_reference(from, weight, bias, c.eps);
    expected.insert(expected.end(), y.begin(), y.end());
  }

  NormArgs args;
  args.kind = c.kind;
  args.x = upload_rows(x, c.columns, c.view ? 32 : 0, c.view, c.rows_kind);
  const size_t padded = (size_t{own} + 31) / 32 * 32;
  args.groups = c.groups;
  weight.resize(padded);
  args.weight = gpu.upload(weight);
  if (c.bias) {
    bias.resize(padded);
    args.bias = gpu.upload(bias);
  }
  args.eps = c.eps;
  args.weight_offset = c.offset;
  args.result = blank_rows(c.bucket, c.columns, 32, c.rows_kind);
  args.step = c.rows_kind == ROWS_TOKENS ? gpu.step(c.count) : gpu.step(c.bucket, c.count);
  gpu.run(norm(profile, args));
  check_rows(args.result, expected, tolerance);
  gpu.clear();
}

constexpr uint32_t all_columns[] = {1, 7, 32, 33, 64, 80, 257, 768, 4100};
constexpr uint32_t all_rows[] = {1, 2, 7, 8, 9, 33};

} // namespace

TEST_CASE("RMS norm") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : all_columns) {
      for (uint32_t rows : all_rows) run(profile, {.columns = columns, .bucket = rows, .count = rows});
      run(profile, {.columns = columns, .bucket = 3, .count = 3, .eps = 0.1f, .offset = 1});
      run(profile, {.columns = columns, .bucket = 3, .count = 3, .view = true});
    }
  }
}

TEST_CASE("layer norm") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : all_columns) {
      for (bool bias : {false, true}) {
        for (uint32_t rows : {1u, 9u}) {
          run(profile,
              {.kind = NormKind::layer, .bias = bias, .columns = columns, .bucket = rows, .count = rows});
        }
        run(profile, {.kind = NormKind::layer,
                      .bias = bias,
                      .columns = columns,
                      .bucket = 3,
                      .count = 3,
                      .view = true});
      }
    }
  }
}

TEST_CASE("norms that are timed") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const timed_cases::Norm& each : timed_cases::norms()) {
      run(profile, {.kind = each.kind,
                    .bias = each.kind == NormKind::layer,
                    .columns = each.columns,
                    .bucket = each.rows,
                    .count = each.rows});
    }
  }
}

TEST_CASE("layer norm around a large mean") {
  // The mean itself is rounded to 32 bits, 1e-7 of a hundred against a deviation of a half.
  for (const DeviceProfile& profile : profiles_to_test()) {
    run(profile, {.kind = NormKind::layer, .columns = 768, .bucket = 2, .count = 2, .mean = 100}, 5e-5);
  }
}

TEST_CASE("norm of a step smaller than its bucket") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (NormKind kind : {NormKind::rms, NormKind::layer}) {
      for (uint32_t count : {0u, 1u, 5u}) {
        run(profile, {.kind = kind, .columns = 33, .bucket = 9, .count = count});
        run(profile, {.kind = kind, .columns = 33, .bucket = 9, .count = count, .rows_kind = ROWS_OUTPUTS});
      }
    }
  }
}

TEST_CASE("norms of groups of columns") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (NormKind kind : {NormKind::rms, NormKind::layer}) {
      for (uint32_t groups : {2u, 3u, 7u}) {
        for (uint32_t own : {4u, 12u, 32u, 60u, 260u, 1028u}) {
          Case c = {.kind = kind, .columns = own * groups, .groups = groups};
          run(profile, c);
          c.bucket = 9;
          for (uint32_t count : {0u, 5u, 9u}) {
            c.count = count;
            run(profile, c);
          }
          c.view = true;
          c.offset = kind == NormKind::rms ? 1.0f : 0.0f;
          run(profile, c);
        }
      }
    }
  }
}

TEST_CASE("norm of zeros is finite") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    NormArgs args;
    args.x = upload_rows(std::vector<float>(64), 64);
    args.weight = gpu.upload(std::vector<float>(64, 1.0f));
    args.eps = 1e-6f;
    args.result = blank_rows(1, 64);
    args.step = gpu.step(1);
    gpu.run(norm(profile, args));
    check_rows(args.result, std::vector<double>(64), 0);
    gpu.clear();
  }
}
