#pragma once

#include <doctest/doctest.h>

#include "kernel/elementwise_reference.h"
#include "kernel/matmul/matmul.h"
#include "kernel/products/matmul_reference.h"
#include "kernel/products/rows.h"
#include "kernel/test_lowering.h"
#include "shaders/common/step.h"

// Products as tests of their kernels try them.

struct MatmulCase {
  pumice::TensorType type = pumice::TensorType::f32;
  uint32_t k = 64;
  uint32_t n = 32;
  uint32_t bucket = 1;
  uint32_t count = 1; // rows of the step
  bool bias = false;
  bool residual = false;
  pumice::Activation activation = pumice::Activation::none;
  bool gated = false;
  bool split = false; // the weight, into two segments
  uint32_t rows_kind = pumice::ROWS_TOKENS;
  std::optional<pumice::TensorType> quantised = {}; // what the weight is packed as, if not as it is
  bool row_scale = false;                           // x still lacks its rows' scales
  bool next_norm = false;                           // the result is left for a norm as well
  bool padded_rows = false; // x has memory for whole groups of rows, as in a plan for a CPU driver
};

// A bias as the plan has it: padded to the tiles.
inline std::vector<float> padded_bias(const std::vector<float>& first, const std::vector<float>* second,
                                      uint32_t tiles) {
  std::vector<float> all(size_t{tiles} * 8);
  for (size_t i = 0; i < first.size(); ++i) {
    if (second) {
      all[i / 8 * 16 + i % 8] = first[i];
      all[i / 8 * 16 + 8 + i % 8] = (*second)[i];
    } else {
      all[i] = first[i];
    }
  }
  return all;
}

// Everything that a product needs, from one seed.
struct TestProduct {
  static constexpr float scale_eps = 1e-3f, norm_offset = 1;

  const MatmulCase c;
  const pumice::DeviceProfile profile;
  const TestWeight weight, up;
  std::vector<float> x;
  // What the product adds to its sums by itself, and what that is: [bucket, n], of both factors.
  std::optional<pumice::MatmulAdapter> adapter;
  std::vector<double> added, up_added;
  const std::vector<float> bias, up_bias, residual, norm_weight;

  TestProduct(const pumice::DeviceProfile& from, const MatmulCase& case_)
      : c(case_), profile(from), weight(c.type, c.n, c.k, c.k + c.n, c.quantised),
        up(c.type, c.n, c.k, c.k + c.n + 1, c.quantised), x(random_values(size_t{c.bucket} * c.k, c.k)),
        bias(random_values(c.n, 5)), up_bias(random_values(c.n, 6)),
        residual(random_values(size_t{c.bucket} * c.n, 7)), norm_weight(random_values(c.n, 8)) {}

  std::vector<double> expected() const { return expected(x); }
  // Were `seen` what the kernel sees of x.
  std::vector<double> expected(const std::vector<float>& seen) const {
    const std::span<const float> used = std::span(seen).first(size_t{c.count} * c.k);
    std::vector<double> out = matmul_reference(used, weight), second;
    if (c.gated) second = matmul_reference(used, up);
    for (size_t i = 0; i < out.size(); ++i) {
      const double scale = c.row_scale ? row_scale(i / c.n) : 1;
      if (adapter) out[i] += added[i];
      if (adapter && c.gated) second[i] += up_added[i];
      out[i] *= scale;
      if (c.bias) out[i] += bias[i % c.n];
      out[i] = activation_reference(c.activation, out[i]);
      if (c.gated) out[i] *= second[i] * scale + (c.bias ? up_bias[i % c.n] : 0);
      if (c.residual) out[i] += residual[i];
    }
    return out;
  }

  double row_scale(size_t row) const {
    double squares = 0;
    for (uint32_t i = 0; i < c.k; ++i) squares += double{x[row * c.k + i]} * x[row * c.k + i];
    return 1 / std::sqrt(squares / c.k + scale_eps);
  }

  // The root mean square of a plain product, were its terms independent.
  double magnitude() const {
    double squares = 0;
    for (uint32_t row = 0; row < c.n; ++row) {
      for (float w : weight.decoded(row)) squares += double{w} * w;
    }
    return std::sqrt(squares / c.n / 3); // x is uniform in -1 to 1
  }

  // Of rows first .. first + bucket - 1 of x; the result is left for the caller to look at.
  pumice::ActivationRef run(uint32_t first, uint32_t bucket, uint32_t count) const {
    using namespace pumice;
    TestGpu& gpu = TestGpu::get();
    const uint32_t weight_tiles = (c.n + 7) / 8, multiple = c.gated ? 8 : 4;
    const uint32_t tiles = (weight_tiles * (c.gated ? 2 : 1) + multiple - 1) / multiple * multiple;
    MatmulArgs args;
    const TensorType type = c.quantised.value_or(c.type);
    args.format = {type, c.k, profile.weight_lane_bytes(type)};
    args.x = upload_x(first, bucket);
    args.result = blank_rows(bucket, c.n, c.next_norm ? 2 * tiles * 8 : 32, c.rows_kind);
    args.activation = c.activation;
    args.gated = c.gated;
    args.adapter = adapter;
    if (c.row_scale) args.row_scale = RowScale{c.k, scale_eps, args.x.padded_columns()};
    std::vector<float> beside;
    if (c.bias) beside = padded_bias(bias, c.gated ? &up_bias : nullptr, tiles);
    if (c.next_norm) {
      args.next_norm = NextNorm{static_cast<uint32_t>(beside.size()), norm_offset, tiles * 8, 2 * tiles * 8};
      const std::vector<float> padded = padded_bias(norm_weight, nullptr, tiles);
      beside.insert(beside.end(), padded.begin(), padded.end());
    }
    if (!beside.empty()) args.bias = gpu.upload(beside);
    if (c.residual) {
      args.residual = upload_rows({residual.begin() + first * c.n, residual.begin() + (first + bucket) * c.n},
                                  c.n, 32, false, c.rows_kind);
    }
    const Graph no_graph;
    TestLowering lowering(profile, no_graph, {});
    args.step = c.rows_kind == pumice::ROWS_TOKENS ? gpu.step(count) : gpu.step(bucket, count);
    const uint32_t part = c.split ? tiles / 2 / multiple * multiple : tiles;
    for (uint32_t tile = 0; tile < tiles; tile += args.weight.tiles) {
      std::vector<TileSource> sources;
      for (uint32_t t = tile; t < std::min(tiles, tile + part); ++t) {
        sources.push_back(!c.gated ? weight.tile(t) : t % 2 == 0 ? weight.tile(t / 2) : up.tile(t / 2));
      }
      args.weight = upload_tiles(args.format, sources, tile);
      REQUIRE(matmul(lowering, args).ok());
    }
    lowering.run();
    kernel = lowering.dispatches().back().kernel;
    return args.result;
  }

  mutable std::string kernel; // that the last run came to

private:
  pumice::ActivationRef upload_x(uint32_t first, uint32_t bucket) const {
    const std::vector<float> rows(x.begin() + first * c.k, x.begin() + (first + bucket) * c.k);
    if (!c.row_scale) return upload_rows(rows, c.k, 32, false, c.rows_kind, c.padded_rows);
    // After the columns come the sums of their squares, over eight each.
    const uint32_t padded = (c.k + 31) / 32 * 32, width = padded + (padded / 8 + 31) / 32 * 32;
    std::vector<float> wide(size_t{bucket} * width);
    for (uint32_t row = 0; row < bucket; ++row) {
      for (uint32_t i = 0; i < c.k; ++i) {
        const float value = rows[row * c.k + i];
        wide[row * width + i] = value;
        wide[row * width + padded + i / 8] += value * value;
      }
    }
    pumice::ActivationRef ref = upload_rows(wide, width, 0, false, c.rows_kind, c.padded_rows);
    ref.columns = c.k;
    return ref;
  }
};

inline void check_product(const pumice::DeviceProfile& profile, const MatmulCase& c) {
  CAPTURE(profile.cpu8);
  CAPTURE(profile.uniform_loads);
  CAPTURE(profile.texel_loads);
  CAPTURE(profile.vector_registers);
  CAPTURE(profile.forced);
  CAPTURE(info(c.type).name);
  CAPTURE(c.bucket);
  CAPTURE(c.count);
  CAPTURE(c.k);
  CAPTURE(c.n);
  CAPTURE(std::string(to_string(c.activation)));
  CAPTURE(c.gated);
  const TestProduct product(profile, c);
  check_rows(product.run(0, c.bucket, c.count), product.expected(), 2e-6, c.gated ? 0 : product.magnitude());
  TestGpu::get().clear();
}
