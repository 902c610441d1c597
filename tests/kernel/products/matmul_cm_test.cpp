// Products by cooperative matrices, against references that round to f16 what the kernels round.
#include <cstring>

#include <doctest/doctest.h>

#include "gpu/kernel_table.h"
#include "kernel/elementwise_reference.h"
#include "kernel/matmul/matmul.h"
#include "kernel/products/rows.h"
#include "kernel/products/weights.h"
#include "kernel/test_lowering.h"
#include "shaders/common/step.h"
#include "shaders/matmul/matmul.params.h"
#include "support/in_turn.h"
#include "support/skip.h"

using namespace pumice;

namespace {

struct Case {
  TensorType type = TensorType::f16;
  uint32_t k = 64;
  uint32_t n = 33;
  uint32_t rows = 33;
  uint32_t count = 33; // of them, in the step
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::none;
  bool gated = false;
  bool split = false; // the weight, into two segments
  bool row_scale = false;
  bool next_norm = false;
  float x_size = 1;
};

constexpr float eps = 1e-5f, norm_offset = 0.5f;

double half(double value) {
  return half_to_float(float_to_half(std::clamp(static_cast<float>(value), -65504.0f, 65504.0f)));
}

// Numbers as the kernels round them: rows of x after a power of two has brought their largest to 2^14 or just
// above.
std::vector<double> x_rounded(std::span<const float> row) {
  float largest = 0;
  for (float value : row) largest = std::max(largest, std::abs(value));
  const double power = largest > 0 ? std::ldexp(1.0, std::ilogb(largest) - 14) : 1;
  std::vector<double> out;
  for (float value : row) out.push_back(half(value / power) * power);
  return out;
}

// Values and what follows them in memory: rows of `stride`, each of `columns`, zeros, and the norm's parts.
struct Product {
  const Case c;
  const DeviceProfile profile;
  const TestWeight weight, up;
  const std::vector<float> x, bias, up_bias, residual, squares, norm;

  Product(const DeviceProfile& from, const Case& case_)
      : c(case_), profile(from), weight(c.type, c.n, c.k, c.k + c.n), up(c.type, c.n, c.k, c.k + c.n + 1),
        x(random_values(size_t{c.rows} * c.k, c.k, c.x_size)), bias(random_values(c.n, 5)),
        up_bias(random_values(c.n, 6)), residual(random_values(size_t{c.rows} * c.n, 7)),
        squares(absolute(random_values(size_t{c.rows} * sums_of(c.k), 8))), norm(random_values(c.n, 9)) {}

  static std::vector<float> absolute(std::vector<float> values) {
    for (float& value : values) value = std::abs(value);
    return values;
  }
  static uint32_t sums_of(uint32_t columns) { return (columns + 7) / 8; }
  static uint32_t padded(uint32_t columns) { return (columns + 31) / 32 * 32; }
  uint32_t weight_tiles() const { return (c.n + 7) / 8; }
  uint32_t tiles() const {
    const uint32_t multiple = c.gated ? 8 : 4;
    return (weight_tiles() * (c.gated ? 2 : 1) + multiple - 1) / multiple * multiple;
  }

  // The plain sums of all rows, of the numbers as they are, or rounded to f16.
  std::vector<double> sums(const TestWeight& matrix, bool rounded) const {
    std::vector<std::vector<double>> rows;
    for (uint32_t row = 0; row < c.count; ++row) {
      const std::span<const float> own = std::span(x).subspan(size_t{row} * c.k, c.k);
      rows.push_back(rounded ? x_rounded(own) : std::vector<double>(own.begin(), own.end()));
    }
    std::vector<double> out(size_t{c.count} * c.n);
    for (uint32_t column = 0; column < c.n; ++column) {
      const std::vector<float> w = matrix.decoded(column);
      std::vector<double> values(w.begin(), w.end());
      if (rounded) std::transform(values.begin(), values.end(), values.begin(), half);
      for (uint32_t row = 0; row < c.count; ++row) {
        for (uint32_t i = 0; i < c.k; ++i) out[row * c.n + column] += rows[row][i] * values[i];
      }
    }
    return out;
  }

  std::vector<double> expected(bool rounded) const {
    std::vector<double> out = sums(weight, rounded);
    const std::vector<double> second = c.gated ? sums(up, rounded) : std::vector<double>(out.size());
    for (size_t i = 0; i < out.size(); ++i) {
      double scale = 1;
      if (c.row_scale) {
        double total = 0;
        for (uint32_t s = 0; s < sums_of(c.k); ++s) total += squares[i / c.n * sums_of(c.k) + s];
        scale = 1 / std::sqrt(total / c.k + eps);
      }
      out[i] *= scale;
      if (c.bias) out[i] += bias[i % c.n];
      out[i] = activation_reference(c.activation, out[i]);
      if (c.gated) out[i] *= second[i] * scale + (c.bias ? up_bias[i % c.n] : 0);
      if (c.residual) out[i] += residual[i];
    }
    return out;
  }

  // The root mean square of a plain product, were its terms independent.
  double magnitude() const {
    double sum = 0;
    for (uint32_t row = 0; row < c.n; ++row) {
      for (float w : weight.decoded(row)) sum += double{w} * w;
    }
    return std::sqrt(sum / c.n / 3) * c.x_size;
  }

  ActivationRef upload_x() const {
    const uint32_t stride = padded(c.k) + padded(sums_of(c.k));
    ActivationRef ref{{}, c.rows, ROWS_TOKENS, c.k, stride};
    std::vector<float> all(size_t{c.rows} * stride);
    for (uint32_t row = 0; row < c.rows; ++row) {
      float* out = all.data() + size_t{row} * stride;
      std::copy_n(x.begin() + row * c.k, c.k, out);
      std::copy_n(squares.begin() + row * sums_of(c.k), sums_of(c.k), out + padded(c.k));
    }
    ref.buffer = TestGpu::get().upload(all);
    return ref;
  }

  // The bias, padded to the tiles, and the norm's weights after it.
  BufferRef upload_vectors() const {
    std::vector<float> all(size_t{tiles()} * 8 * 2);
    for (uint32_t i = 0; i < c.n; ++i) {
      all[c.gated ? i / 8 * 16 + i % 8 : i] = bias[i];
      if (c.gated) all[i / 8 * 16 + 8 + i % 8] = up_bias[i];
      all[size_t{tiles()} * 8 + i] = norm[i];
    }
    return TestGpu::get().upload(all);
  }

  // Runs it with `variant`, which has to be what all its launches are of. The result's rows hold themselves,
  // then what is left for a norm.
  ActivationRef run(const std::string& variant) const {
    TestGpu& gpu = TestGpu::get();
    MatmulArgs args;
    args.format = {c.type, c.k, profile.weight_lane_bytes(c.type)};
    args.x = upload_x();
    args.result = blank_rows(c.rows, c.n, padded(c.n) + padded(padded(c.n) / 8));
    args.activation = c.activation;
    args.gated = c.gated;
    if (c.bias || c.next_norm) args.bias = upload_vectors();
    if (c.residual) args.residual = upload_rows(residual, c.n);
    if (c.row_scale) args.row_scale = {c.k, eps, padded(c.k)};
    if (c.next_norm) args.next_norm = {c.bias ? tiles() * 8 : 0, norm_offset, padded(c.n), 2 * padded(c.n)};
    if (c.next_norm && !c.bias) {
      std::vector<float> weights(size_t{tiles()} * 8);
      std::copy(norm.begin(), norm.end(), weights.begin());
      args.bias = gpu.upload(weights);
    }
    const Graph no_graph;
    TestLowering lowering(profile, no_graph, {});
    args.step = gpu.step(c.count);
    const uint32_t multiple = c.gated ? 8 : 4,
                   part = c.split ? (tiles() / 2 + multiple - 1) / multiple * multiple : tiles();
    for (uint32_t tile = 0; tile < tiles(); tile += args.weight.tiles) {
      std::vector<TileSource> sources;
      for (uint32_t t = tile; t < std::min(tiles(), tile + part); ++t) {
        sources.push_back(!c.gated ? weight.tile(t) : t % 2 == 0 ? weight.tile(t / 2) : up.tile(t / 2));
      }
      args.weight = upload_tiles(args.format, sources, tile);
      REQUIRE(matmul(lowering, args).ok());
    }
    for (const Dispatch& dispatch : lowering.dispatches()) {
      if (dispatch.kernel == "halve_rows" || dispatch.kernel == "add_parts") continue;
      CHECK((dispatch.groups[2] > 1) == (variant == "cm-split"));
      REQUIRE(dispatch.kernel == "matmul.cm." + kernel_variant(c.type));
      // Of the device's sizes, or of ours.
      const auto used = [&](const MatrixShape& matrix) {
        return dispatch.constants[MATMUL_M_ID] == matrix.m && dispatch.constants[MATMUL_N_ID] == matrix.n &&
               dispatch.constants[MATMUL_K_ID] == matrix.k;
      };
      REQUIRE(std::ranges::any_of(profile.matrix_shapes, used) == (variant != "cm2"));
    }
    lowering.run();
    return args.result;
  }
};

// What a product left for the norm after it, held against its own result.
void check_next_norm(const Product& product, const ActivationRef& result) {
  const Case& c = product.c;
  const std::vector<float> got = TestGpu::get().read<float>(result.buffer);
  size_t wrong = 0;
  for (uint32_t row = 0; row < c.count; ++row) {
    const float* out = got.data() + size_t{row} * result.stride;
    const float* normed = out + Product::padded(c.n);
    const float* sums = normed + Product::padded(c.n);
    for (uint32_t i = 0; i < Product::padded(c.n); ++i) {
      const float weight = i < c.n ? product.norm[i] + norm_offset : norm_offset;
      wrong += std::abs(normed[i] - out[i] * weight) > 1e-6f * std::abs(out[i] * weight);
    }
    for (uint32_t tile = 0; tile < Product::padded(c.n) / 8; ++tile) {
      double squares = 0;
      for (uint32_t i = 0; i < 8; ++i) squares += double{out[tile * 8 + i]} * out[tile * 8 + i];
      wrong += std::abs(sums[tile] - squares) > 1e-6 * squares;
    }
  }
  CHECK(wrong == 0);
}

// The profile of each tier and matrix size that the device has.
struct Tier {
  std::string variant;
  DeviceProfile profile;
};

std::vector<Tier> tiers() {
  const DeviceProfile& chosen = TestGpu::get().profile;
  std::vector<Tier> found;
  const auto add = [&](const std::string& variant) -> DeviceProfile& {
    DeviceProfile profile = chosen;
    profile.cpu8 = profile.uniform_loads = false;
    profile.forced = variant;
    profile.matrix_shapes.clear();
    return found.emplace_back(Tier{variant, profile}).profile;
  };
  if (find_kernel("matmul.cm.f16")) {
    for (const MatrixShape& shape : chosen.matrix_shapes) {
      if (32 % shape.m || shape.n % 8 || 16 % shape.n || 32 % shape.k) continue;
      add("cm").matrix_shapes = {shape};
    }
  }
  if (find_kernel("matmul.cm.f16") && chosen.cm2) add("cm2");
  if (!found.empty() && found.front().variant == "cm") {
    DeviceProfile& split = add("cm-split"); // with one size of matrices: the rest is the same code
    split.matrix_shapes = found.front().profile.matrix_shapes;
    split.cores = 40;
  }
  if (found.empty()) skip("this device, or this build's shader compiler, has no cooperative matrices");
  return found;
}

void run(const Tier& tier, const Case& c) {
  CAPTURE(tier.variant);
  CAPTURE(info(c.type).name);
  CAPTURE(c.rows);
  CAPTURE(c.count);
  CAPTURE(c.k);
  CAPTURE(c.n);
  CAPTURE(std::string(to_string(c.activation)));
  CAPTURE(c.gated);
  const Product product(tier.profile, c);
  const ActivationRef result = product.run(tier.variant);
  if (c.next_norm) check_next_norm(product, result);
  const double magnitude = c.gated || c.row_scale ? 0 : product.magnitude();
  // A row ends in what a norm gets, which check_rows would take for damage.
  ActivationRef plain = result;
  if (c.next_norm) {
    const std::vector<float> got = TestGpu::get().read<float>(result.buffer);
    std::vector<float> kept;
    plain.stride = plain.padded_columns();
    for (uint32_t row = 0; row < result.rows; ++row) {
      const float* from = got.data() + size_t{row} * result.stride;
      kept.insert(kept.end(), from, from + plain.stride);
    }
    plain.buffer = TestGpu::get().upload(kept);
  }
  check_rows(plain, product.expected(true), 5e-6, magnitude);
  // Against the numbers as they are; where a row has no size to be held to, its sums may cancel.
  check_rows(plain, product.expected(false), magnitude > 0 ? 1e-3 : 1e-2, magnitude);
  TestGpu::get().clear();
}

} // namespace

TEST_CASE("cooperative matrices: products of every type and shape") {
  // Kernels for few rows and for many are two pipelines, and slow to compile: types take turns, in a short
  // run every sixth of them.
  constexpr uint32_t all_rows[2][4] = {{9, 16, 17, 32}, {33, 49, 65, 130}};
  constexpr uint32_t all_n[] = {1, 8, 31, 33, 64, 100};
  for (const Tier& tier : tiers()) {
    size_t turn = 0, many = 0;
    std::vector<TensorType> types = turns_of(weight_types, 6, 5); // F16 first
    if (tier.variant == "cm2")
      types = {TensorType::f16, TensorType::q4_k}; // the same code with other matrices
    const bool split = tier.variant == "cm-split";
    if (split) types = {TensorType::f16, TensorType::q8_0, TensorType::q4_k};
    for (TensorType type : types) {
      many = 1 - many;
      for (uint32_t k : {1u, 31u, 32u, 96u, 256u, 300u, 352u, 768u}) {
        if (k % info(type).block_size != 0 || (split && k < 128)) continue;
        for (int i = 0; i < 2; ++i) {
          const uint32_t rows = all_rows[many][turn % 4], n = all_n[turn % std::size(all_n)];
          run(tier, {.type = type, .k = k, .n = n, .rows = rows, .count = rows});
          ++turn;
        }
      }
    }
  }
}

TEST_CASE("cooperative matrices: biases, residuals, activations, gates, and what norms need") {
  for (const Tier& tier : tiers()) {
    uint32_t turn = 17;
    const auto check = [&](Case c) {
      // Few rows and many in turn; in a long run gated tiles, which stay together, with both.
      turn = 82 - turn;
      if (tier.variant == "cm-split") c.k = 160; // of which each workgroup has a part
      for (uint32_t rows : {17u, 65u}) {
        if (rows != turn && !(c.gated && every_case())) continue;
        c.rows = c.count = rows;
        for (uint32_t n : {9u, 100u}) {
          c.n = n;
          run(tier, c);
        }
      }
    };
    check({.bias = true, .split = true});
    check({.residual = true});
    check({.activation = Activation::silu, .gated = true, .split = true});
    if (tier.variant == "cm2") continue; // nothing of what follows depends on the matrices
    check({.bias = true, .residual = true, .activation = Activation::gelu});
    check({.bias = true, .activation = Activation::gelu_tanh, .gated = true});
    check({.bias = true, .row_scale = true});
    check({.activation = Activation::silu, .gated = true, .row_scale = true});
    check({.residual = true, .next_norm = true});
    check({.bias = true, .residual = true, .row_scale = true, .next_norm = true});
  }
}

TEST_CASE("cooperative matrices: blocks of 128 rows, which have the bits of smaller ones") {
  struct Large {
    uint32_t n, busy_groups;
    bool gated, few_registers;
  };
  for (Tier tier : tiers()) {
    if (tier.variant != "cm") continue;
    Tier large = tier;
    large.profile.most_invocations = 1024;
    // Enough for blocks of 128 columns, and of 64; and as on Intel's Xe2.
    for (const Large& each :
         {Large{260, 6, false, false}, {72, 4, false, false}, {72, 4, true, false}, {260, 6, false, true}}) {
      large.profile.registers.matrix_sums = each.few_registers ? 16 : UINT32_MAX;
      if (each.few_registers) large.profile.generation = GpuGeneration::intel_xe2;
      large.profile.busy_groups = each.busy_groups;
      const Case c = {.type = TensorType::q4_k,
                      .k = 256,
                      .n = each.n,
                      .rows = 200,
                      .count = 200,
                      .residual = !each.gated,
                      .activation = each.gated ? Activation::silu : Activation::none,
                      .gated = each.gated};
      run(large, c);
      const Product product(tier.profile, c), with_large(large.profile, c);
      const auto floats = [](const ActivationRef& result) {
        return TestGpu::get().read<float>(result.buffer);
      };
      const std::vector<float> one = floats(product.run("cm")), other = floats(with_large.run("cm"));
      CHECK(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0);
      TestGpu::get().clear();
    }
  }
}

TEST_CASE("cooperative matrices: parts of k have the same bits in blocks of any size") {
  for (Tier tier : tiers()) {
    if (tier.variant != "cm-split") continue;
    tier.profile.most_invocations = 1024;
    tier.profile.cores = 3; // soon busy, so that blocks are large where there are registers
    std::vector<float> results[2];
    for (const uint32_t sums : {16u, UINT32_MAX}) {
      tier.profile.registers.matrix_sums = sums;
      const Case c = {.type = TensorType::q4_k, .k = 512, .n = 100, .rows = 200, .count = 200, .bias = true};
      run(tier, c);
      results[sums > 16] = TestGpu::get().read<float>(Product(tier.profile, c).run("cm-split").buffer);
      TestGpu::get().clear();
    }
    REQUIRE(results[0].size() == results[1].size());
    CHECK(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)) == 0);
  }
}

TEST_CASE("cooperative matrices: steps smaller than their bucket") {
  for (const Tier& tier : tiers()) {
    for (uint32_t count : {0u, 1u, 31u, 64u})
      run(tier, {.type = TensorType::f16, .k = 160, .rows = 65, .count = count});
  }
}

TEST_CASE("cooperative matrices: numbers outside the range of f16") {
  for (const Tier& tier : tiers()) {
    for (float size : {0.0f, 1e-30f, 1e-6f, 7e4f, 1e20f})
      run(tier, {.type = TensorType::f16, .k = 160, .x_size = size});
  }
}

TEST_CASE("cooperative matrices: a row has the same bits whatever rows are beside it") {
  for (const Tier& tier : tiers()) {
    const auto bits = [&](uint32_t rows) {
      const Product product(tier.profile,
                            {.type = TensorType::q4_k, .k = 768, .n = 100, .rows = rows, .count = rows});
      const ActivationRef result = product.run(tier.variant);
      std::vector<uint32_t> all = TestGpu::get().read<uint32_t>(result.buffer);
      TestGpu::get().clear();
      return all;
    };
    const std::vector<uint32_t> many = bits(130), few = bits(16);
    CHECK(std::equal(few.begin(), few.end(), many.begin()));
  }
}
