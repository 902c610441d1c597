#include "kernel/matmul.h"

#include <doctest/doctest.h>

#include "kernel/elementwise_reference.h"
#include "kernel/matmul_reference.h"
#include "kernel/rows.h"
#include "kernel/test_lowering.h"
#include "kernel/timed_cases.h"
#include "shaders/common/step.h"

using namespace pumice;

namespace {

struct Case {
  TensorType type = TensorType::f32;
  uint32_t k = 64;
  uint32_t n = 32;
  uint32_t bucket = 1;
  uint32_t count = 1; // rows of the step
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::none;
  bool gated = false;
  bool split = false; // the weight, into two segments
  uint32_t rows_kind = ROWS_TOKENS;
  std::optional<TensorType> quantised = {}; // what the weight is packed as, if not as it is
};

// A bias as the plan has it: padded to the tiles.
BufferRef upload_bias(const std::vector<float>& first, const std::vector<float>* second, uint32_t tiles) {
  std::vector<float> all(size_t{tiles} * 8);
  for (size_t i = 0; i < first.size(); ++i) {
    if (second) {
      all[i / 8 * 16 + i % 8] = first[i];
      all[i / 8 * 16 + 8 + i % 8] = (*second)[i];
    } else {
      all[i] = first[i];
    }
  }
  return TestGpu::get().upload(all);
}

// Everything that a product needs, from one seed.
struct Product {
  const Case c;
  const KernelStyle style;
  const TestWeight weight, up;
  const std::vector<float> x, bias, up_bias, residual;

  Product(const KernelStyle& from, const Case& case_)
      : c(case_), style(from), weight(c.type, c.n, c.k, c.k + c.n, c.quantised),
        up(c.type, c.n, c.k, c.k + c.n + 1, c.quantised), x(random_values(size_t{c.bucket} * c.k, c.k)),
        bias(random_values(c.n, 5)), up_bias(random_values(c.n, 6)),
        residual(random_values(size_t{c.bucket} * c.n, 7)) {}

  std::vector<double> expected() const {
    std::vector<double> out = matmul_reference(std::span(x).first(size_t{c.count} * c.k), weight);
    std::vector<double> second;
    if (c.gated) second = matmul_reference(std::span(x).first(size_t{c.count} * c.k), up);
    for (size_t i = 0; i < out.size(); ++i) {
      if (c.bias) out[i] += bias[i % c.n];
      out[i] = activation_reference(c.activation, out[i]);
      if (c.gated) out[i] *= second[i] + (c.bias ? up_bias[i % c.n] : 0);
      if (c.residual) out[i] += residual[i];
    }
    return out;
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
  ActivationRef run(uint32_t first, uint32_t bucket, uint32_t count) const {
    TestGpu& gpu = TestGpu::get();
    const uint32_t weight_tiles = (c.n + 7) / 8, multiple = c.gated ? 8 : 4;
    const uint32_t tiles = (weight_tiles * (c.gated ? 2 : 1) + multiple - 1) / multiple * multiple;
    MatmulArgs args;
    args.format = {c.quantised.value_or(c.type), c.k, style.weight_chunk()};
    args.x = upload_rows({x.begin() + first * c.k, x.begin() + (first + bucket) * c.k}, c.k, 32, false,
                         c.rows_kind);
    args.result = blank_rows(bucket, c.n, 32, c.rows_kind);
    args.activation = c.activation;
    args.gated = c.gated;
    if (c.bias) args.bias = upload_bias(bias, c.gated ? &up_bias : nullptr, tiles);
    if (c.residual) {
      args.residual = upload_rows({residual.begin() + first * c.n, residual.begin() + (first + bucket) * c.n},
                                  c.n, 32, false, c.rows_kind);
    }
    const Graph no_graph;
    TestLowering lowering(style, no_graph, {});
    args.step = c.rows_kind == ROWS_TOKENS ? gpu.step(count) : gpu.step(bucket, count);
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
    return args.result;
  }
};

void run(const KernelStyle& style, const Case& c) {
  CAPTURE(style.lane8);
  CAPTURE(style.uniform_loads);
  CAPTURE(info(c.type).name);
  CAPTURE(c.bucket);
  CAPTURE(c.count);
  CAPTURE(c.k);
  CAPTURE(c.n);
  CAPTURE(to_string(c.activation));
  CAPTURE(c.gated);
  const Product product(style, c);
  check_rows(product.run(0, c.bucket, c.count), product.expected(), 2e-6, c.gated ? 0 : product.magnitude());
  TestGpu::get().clear();
}

constexpr uint32_t all_rows[] = {1, 2, 4, 5, 8, 9, 16, 17, 33};
constexpr uint32_t all_k[] = {1, 7, 32, 64, 96, 160, 256, 768};
constexpr uint32_t all_n[] = {1, 8, 9, 31, 32, 33, 100};

} // namespace

TEST_CASE("products of every type and shape") {
  for (const KernelStyle& style : styles_to_test()) {
    for (TensorType type : weight_types) {
      // Every k with every n; the row counts take turns, so that each meets each k and each n.
      size_t turn = 0;
      for (uint32_t k : all_k) {
        if (k % info(type).block_size != 0) continue;
        for (uint32_t n : all_n) {
          for (int i = 0; i < 3; ++i) {
            const uint32_t rows = all_rows[turn++ % std::size(all_rows)];
            run(style, {.type = type, .k = k, .n = n, .bucket = rows, .count = rows});
          }
          ++turn;
        }
      }
    }
  }
}

TEST_CASE("products that are also timed") {
  for (const KernelStyle& style : styles_to_test()) {
    for (const timed_cases::Product& each : timed_cases::products()) {
      if (each.only_timed) continue;
      run(style, {.type = each.type, .k = each.k, .n = each.n, .bucket = each.rows, .count = each.rows});
    }
  }
}

TEST_CASE("products with biases, residuals, activations and gates") {
  for (const KernelStyle& style : styles_to_test()) {
    // What is done to a sum does not depend on the weight's type, so types take turns.
    size_t turn = 0;
    for (uint32_t rows : {1u, 5u, 17u}) {
      const auto check = [&](Case c) {
        c.bucket = c.count = rows;
        for (uint32_t n : {9u, 100u}) {
          c.n = n;
          c.type = weight_types[turn % std::size(weight_types)];
          c.k = std::max(64u, info(c.type).block_size);
          run(style, c);
        }
        ++turn;
      };
      check({.bias = true});
      check({.residual = true});
      for (Activation activation :
           {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
        // Slow to compile on old drivers; elementwise_test.cpp has them all.
        if (rows > 1 && activation != Activation::gelu) continue;
        check({.bias = true, .residual = true, .activation = activation});
      }
      check({.gated = true});
      check({.activation = Activation::silu, .gated = true});
      check({.bias = true, .activation = Activation::gelu_tanh, .gated = true});
    }
  }
}

TEST_CASE("products of weights that are quantised while they are packed") {
  for (const KernelStyle& style : styles_to_test()) {
    for (TensorType type : weight_types) {
      if (!can_quantize(type)) continue;
      for (TensorType source : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
        for (uint32_t k : {1u, 33u, 300u, 544u}) { // whole blocks of 32, and of 256, and neither
          CAPTURE(info(source).name);
          run(style, {.type = source, .k = k, .n = 9, .quantised = type});
        }
      }
    }
  }
}

TEST_CASE("gated products, of types with one scale, with two, with minimums, and with none") {
  for (const KernelStyle& style : styles_to_test()) {
    for (TensorType type : {TensorType::f16, TensorType::q8_0, TensorType::q4_k, TensorType::q6_k}) {
      for (uint32_t rows : {1u, 4u, 9u}) {
        run(style, {.type = type,
                    .k = 96 % info(type).block_size == 0 ? 96u : 256u,
                    .n = 33,
                    .bucket = rows,
                    .count = rows,
                    .activation = Activation::silu,
                    .gated = true});
      }
    }
  }
}

TEST_CASE("a product of a step smaller than its bucket, and of a weight in two parts") {
  for (const KernelStyle& style : styles_to_test()) {
    for (uint32_t count : {0u, 1u, 3u, 8u, 17u}) {
      run(style, {.type = TensorType::q8_0, .n = 33, .bucket = 17, .count = count});
      run(style,
          {.type = TensorType::q8_0, .n = 33, .bucket = 17, .count = count, .rows_kind = ROWS_OUTPUTS});
    }
    for (uint32_t rows : {1u, 4u, 9u}) {
      run(style, {.type = TensorType::f16,
                  .n = 100,
                  .bucket = rows,
                  .count = rows,
                  .bias = true,
                  .residual = true,
                  .split = true});
      run(style, {.type = TensorType::f16,
                  .n = 100,
                  .bucket = rows,
                  .count = rows,
                  .bias = true,
                  .activation = Activation::silu,
                  .gated = true,
                  .split = true});
    }
  }
}

TEST_CASE("a row's product has the same bits whatever rows are beside it") {
  TestGpu& gpu = TestGpu::get();
  for (const KernelStyle& style : styles_to_test()) {
    for (TensorType type : weight_types) {
      for (bool gated : {false, true}) {
        if (gated && type != TensorType::q8_0) continue; // the sums are the same code
        CAPTURE(style.lane8);
        CAPTURE(style.uniform_loads);
        CAPTURE(info(type).name);
        const Product product(style, {.type = type,
                                      .k = 768,
                                      .n = 100,
                                      .bucket = 33,
                                      .bias = gated,
                                      .activation = gated ? Activation::silu : Activation::none,
                                      .gated = gated});
        const auto bits = [&](uint32_t first, uint32_t bucket, uint32_t count) {
          const ActivationRef result = product.run(first, bucket, count);
          std::vector<uint32_t> all = gpu.read<uint32_t>(result.buffer);
          gpu.clear();
          return all;
        };
        const std::vector<uint32_t> together = bits(0, 33, 33);
        const size_t stride = together.size() / 33;
        for (uint32_t row : {0u, 7u, 16u, 32u}) {
          const std::vector<uint32_t> alone = bits(row, 1, 1);
          CHECK(std::equal(alone.begin(), alone.end(),
                           together.begin() + static_cast<ptrdiff_t>(row * stride)));
        }
        const std::vector<uint32_t> four = bits(8, 4, 4);
        CHECK(std::equal(four.begin(), four.end(), together.begin() + static_cast<ptrdiff_t>(8 * stride)));
      }
    }
  }
}
