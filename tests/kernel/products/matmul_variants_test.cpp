#include <algorithm>
#include <cstdlib>

#include "gpu/kernel_table.h"
#include "kernel/products/matmul_case.h"
#include "support/in_turn.h"
#include "support/skip.h"

using namespace pumice;

namespace {

// A variant, where it runs, and how its kernels are named.
struct Variant {
  const char* name;
  std::string kernels;
  std::vector<uint32_t> rows; // each a different workgroup
};

const Variant vector{"subgroup", "matmul_subgroup.", {1, 2, 8, 17}};
const Variant tiled{"tiled", "matmul_tiled.", {9, 17, 33, 65}};
const Variant dot{"dot", "matmul.dot.", {1, 2, 3, 17}};

// A device with room to spare gets the smallest pieces, one that is soon busy the largest.
DeviceProfile profile_of(const Variant& variant, bool soon_busy) {
  DeviceProfile profile = forced_profile(variant.name);
  if (soon_busy) profile.busy_groups = 1;
  return profile;
}

bool can_run(const Variant& variant) {
  const DeviceProfile profile = forced_profile(variant.name);
  if (&variant == &tiled) return true;
  if (&variant == &dot && (!profile.dot || !find_kernel("matmul.dot.q8_0"))) return false;
  return profile.subgroup >= 8;
}

// Each 32 columns of x in 8 bits. Numbers that lie between two codes, where the last bit of a device's
// division decides, are taken out of x first.
std::vector<float> in_8_bits(const MatmulCase& c, std::vector<float>& x) {
  std::vector<float> seen(x.size());
  for (size_t begin = 0; begin < x.size(); begin += c.k) {
    for (uint32_t first = 0; first < c.k; first += 32) {
      const std::span<float> block = std::span(x).subspan(begin + first, std::min(32u, c.k - first));
      float largest = 0;
      for (float value : block) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < block.size(); ++i) {
        const float exact = block[i] * (largest > 0 ? 127 / largest : 0);
        if (std::abs(std::abs(exact - std::trunc(exact)) - 0.5f) < 1e-3f) block[i] = 0;
        seen[begin + first + i] = block[i] == 0 ? 0 : std::nearbyint(exact) * (largest / 127);
      }
    }
  }
  return seen;
}

// Takes what lies between two codes out of the product's x, where the variant rounds it.
std::vector<double> expected_of(const Variant& variant, TestProduct& product) {
  return product.expected(&variant == &dot ? in_8_bits(product.c, product.x) : product.x);
}

void check(const Variant& variant, const DeviceProfile& profile, const MatmulCase& c) {
  CAPTURE(variant.name);
  CAPTURE(profile.busy_groups);
  CAPTURE(info(c.type).name);
  CAPTURE(c.bucket);
  CAPTURE(c.count);
  CAPTURE(c.k);
  CAPTURE(c.n);
  CAPTURE(c.gated);
  TestProduct product(profile, c);
  const std::vector<double> expected = expected_of(variant, product);
  check_rows(product.run(0, c.bucket, c.count), expected, &variant == &dot ? 1e-5 : 2e-6,
             c.gated ? 0 : product.magnitude());
  CHECK(product.kernel == variant.kernels + kernel_variant(c.type));
  TestGpu::get().clear();
}

std::vector<TensorType> types_of(const Variant& variant) {
  std::vector<TensorType> types;
  for (TensorType type : weight_types) {
    if (&variant != &dot || find_kernel(variant.kernels + kernel_variant(type))) types.push_back(type);
  }
  return types;
}

// Kernels are slow to compile on CPU drivers, so row counts take turns: each meets several types.
// With subgroups of another width than the driver's, what is done by types is as with its own.
void check_types(const Variant& variant) {
  const bool other_width = std::getenv("PUMICE_TEST_SUBGROUP") || std::getenv("LP_NATIVE_VECTOR_WIDTH");
  size_t turn = 0;
  for (TensorType type : turns_of(types_of(variant), other_width ? 4 : 1)) {
    const uint32_t rows = variant.rows[turn++ % variant.rows.size()];
    const uint32_t k = info(type).block_size == 1 ? 407 : info(type).block_size == 32 ? 416 : 768;
    check(variant, profile_of(variant, true),
          {.type = type, .k = k, .n = 100, .bucket = rows, .count = rows});
  }
}

// Epilogues, rows that are not in use, and weights in two parts. What is done to a sum does not depend on the
// weight's type.
void check_uses(const Variant& variant) {
  size_t turn = 0;
  const auto try_each = [&](MatmulCase c) {
    c.type = TensorType::q4_1;
    c.k = 96;
    c.n = turn % 2 == 0 ? 9 : 100;
    c.bucket = c.count = variant.rows[turn % variant.rows.size()];
    check(variant, profile_of(variant, turn++ % 2 == 1), c);
  };
  try_each({.bias = true, .residual = true, .activation = Activation::relu});
  try_each({.bias = true, .activation = Activation::relu, .gated = true});
  try_each({.activation = Activation::relu, .gated = true, .row_scale = true});
  try_each({.bias = true, .residual = true, .row_scale = true});
  const uint32_t most = variant.rows.back();
  for (uint32_t count : {0u, 1u, most - 1}) {
    for (uint32_t kind : {ROWS_TOKENS, ROWS_OUTPUTS}) {
      check(variant, profile_of(variant, true),
            {.type = TensorType::q8_0, .n = 33, .bucket = most, .count = count, .rows_kind = kind});
    }
  }
  for (bool gated : {false, true}) {
    check(variant, profile_of(variant, true),
          {.type = TensorType::q8_0,
           .n = 200,
           .bucket = most,
           .count = most,
           .bias = true,
           .activation = gated ? Activation::relu : Activation::none,
           .gated = gated,
           .split = true});
  }
}

// The row times the norm's weight, and the sums of its squares.
void check_next_norm(const Variant& variant) {
  TestGpu& gpu = TestGpu::get();
  for (bool bias : {false, true}) {
    const uint32_t rows = bias ? variant.rows.back() : variant.rows.front();
    CAPTURE(variant.name);
    CAPTURE(bias);
    TestProduct product(profile_of(variant, bias), {.type = TensorType::q8_0,
                                                    .n = 100,
                                                    .bucket = rows,
                                                    .count = rows,
                                                    .bias = bias,
                                                    .residual = true,
                                                    .next_norm = true});
    const std::vector<double> expected = expected_of(variant, product);
    const ActivationRef result = product.run(0, rows, rows);
    CHECK(product.kernel == variant.kernels + "q8_0");
    const std::vector<float> got = gpu.read<float>(result.buffer);
    const uint32_t padded = result.padded_columns();
    size_t wrong = 0;
    for (uint32_t row = 0; row < rows; ++row) {
      const float* out = got.data() + row * result.stride;
      for (uint32_t tile = 0; tile < padded / 8; ++tile) {
        double squares = 0;
        for (uint32_t i = tile * 8; i < tile * 8 + 8; ++i) {
          const double wanted = i < 100 ? expected[row * 100 + i] : 0;
          wrong += std::abs(out[i] - wanted) > 1e-4;
          const float weight = i < 100 ? product.norm_weight[i] : 0;
          const float normed = out[i] * (weight + product.norm_offset);
          wrong += std::abs(out[padded + i] - normed) > 1e-6f * std::abs(normed);
          squares += double{out[i]} * out[i];
        }
        wrong += !(std::abs(out[2 * padded + tile] - squares) <= 1e-6 * squares);
      }
    }
    CHECK(wrong == 0);
    gpu.clear();
  }
}

void check_bits(const Variant& variant) {
  TestGpu& gpu = TestGpu::get();
  const uint32_t most = variant.rows.back(), least = variant.rows.front();
  for (TensorType type : {TensorType::q4_1, TensorType::q6_k}) { // with minimums, and with two scales
    CAPTURE(variant.name);
    CAPTURE(info(type).name);
    const TestProduct product(profile_of(variant, false), {.type = type, .k = 768, .n = 100, .bucket = most});
    const auto bits = [&](uint32_t first, uint32_t count) {
      const ActivationRef result = product.run(first, count, count);
      CHECK(product.kernel == variant.kernels + kernel_variant(type));
      std::vector<uint32_t> all = gpu.read<uint32_t>(result.buffer);
      gpu.clear();
      return all;
    };
    const std::vector<uint32_t> together = bits(0, most);
    const size_t stride = together.size() / most;
    for (uint32_t first : {0u, 3u, most - least}) {
      for (uint32_t count : {least, std::min(least + 2, most - first)}) {
        if (first + count > most) continue;
        const std::vector<uint32_t> few = bits(first, count);
        CHECK(std::equal(few.begin(), few.end(), together.begin() + static_cast<ptrdiff_t>(first * stride)));
      }
    }
  }
}

void check_variant(const Variant& variant) {
  if (!can_run(variant)) return skip(std::string("this device or this build has no ") + variant.name);
  check_types(variant);
  check_uses(variant);
  check_next_norm(variant);
  check_bits(variant);
}

} // namespace

TEST_CASE("products by subgroups, of few rows") {
  check_variant(vector);
}

TEST_CASE("products by subgroups of a width that the device's do not have are wrong") {
  DeviceProfile profile = forced_profile("subgroup");
  if (profile.subgroup < 16) return skip("this device's subgroups are the narrowest that kernels use");
  const MatmulCase c = {.type = TensorType::q8_0, .k = 2048, .n = 32}; // enough for a whole workgroup
  const auto error = [&] {
    const TestProduct product(profile, c);
    const std::vector<double> expected = product.expected();
    const std::vector<float> got = TestGpu::get().read<float>(product.run(0, 1, 1).buffer);
    TestGpu::get().clear();
    return relative_rms(std::span(got).first(c.n), std::vector<float>(expected.begin(), expected.end()));
  };
  CHECK(error() < 2e-6);
  profile.subgroup /= 2;
  CHECK_FALSE(error() < 1e-2); // or not a number
}

TEST_CASE("products by tiles in shared memory, of many rows") {
  check_variant(tiled);
}

TEST_CASE("products in integers, of x in 8 bits") {
  check_variant(dot);
  if (!can_run(dot)) return;
  // As far from the exact product as rounding takes it, and no closer.
  const TestProduct product(forced_profile("dot"),
                            {.type = TensorType::q8_0, .k = 768, .n = 256, .bucket = 1, .count = 1});
  const double error = check_rows(product.run(0, 1, 1), product.expected(), 1e-2, product.magnitude());
  CHECK(error > 1e-3);
  TestGpu::get().clear();
}

TEST_CASE("integers are never a product's first choice") {
  for (DeviceProfile profile : {TestGpu::get().profile, forced_profile("")}) {
    const TestProduct product(profile, {.type = TensorType::q8_0, .count = 1});
    product.run(0, 1, 1);
    CHECK(product.kernel.find(".dot.") == std::string::npos);
    TestGpu::get().clear();
  }
}

TEST_CASE("a variant that reads a layout which the weight does not have is not chosen") {
  DeviceProfile profile = forced_profile("");
  profile.cpu8 = profile.uniform_loads = TestGpu::get().profile.cpu8;
  if (!profile.cpu8) return skip("only CPU drivers have another layout");
  for (const char* name : {"subgroup", "tiled", "dot", "portable"}) {
    profile.forced = name;
    check_product(profile, {.type = TensorType::q8_0, .n = 33, .bucket = 9, .count = 9});
    check_product(profile, {.type = TensorType::q8_0, .n = 33});
  }
}

TEST_CASE("on CPU drivers one kernel computes products of any number of rows") {
  DeviceProfile profile = forced_profile("");
  const auto kernel = [&](uint32_t rows) {
    const TestProduct product(profile, {.type = TensorType::q8_0, .n = 33, .bucket = rows, .count = rows});
    product.run(0, rows, rows);
    TestGpu::get().clear();
    return product.kernel;
  };
  CHECK(kernel(1) != kernel(33));
  profile.cpu = true;
  for (uint32_t rows : {1u, 2u, 8u, 9u, 16u, 65u}) CHECK(kernel(rows) == "matmul_portable.q8_0");
  profile.forced = "tiled";
  CHECK(kernel(16) == "matmul_tiled.q8_0");
}

TEST_CASE("products of few rows have the same bits however codes become numbers") {
  if (!can_run(vector)) return skip("this device's subgroups cannot shuffle");
  std::vector<TensorType> quantised;
  for (TensorType type : weight_types) {
    if (info(type).block_size > 1) quantised.push_back(type);
  }
  for (TensorType type : turns_of(quantised, 4)) {
    CAPTURE(info(type).name);
    const MatmulCase c{
        .type = type, .k = info(type).block_size == 32 ? 416u : 768u, .n = 20, .bucket = 2, .count = 2};
    std::vector<uint32_t> fields;
    for (GpuGeneration generation :
         {GpuGeneration::unknown, GpuGeneration::intel_xe2, GpuGeneration::nvidia_turing}) {
      DeviceProfile profile = profile_of(vector, true);
      profile.generation = generation;
      TestProduct product(profile, c);
      const auto result = TestGpu::get().read<uint32_t>(product.run(0, c.bucket, c.count).buffer);
      if (generation == GpuGeneration::unknown) fields = result;
      CHECK(result == fields);
      TestGpu::get().clear();
    }
  }
}
