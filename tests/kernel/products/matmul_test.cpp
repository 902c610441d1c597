#include "kernel/products/matmul_case.h"
#include "support/in_turn.h"
#include "tools/pumice/bench/timed_cases.h"

using namespace pumice;

namespace {

constexpr uint32_t all_rows[] = {1, 2, 4, 5, 8, 9, 17, 33};
constexpr uint32_t all_k[] = {1, 7, 32, 64, 96, 160, 256, 768};
constexpr uint32_t all_n[] = {1, 8, 9, 31, 32, 33, 100};

} // namespace

// Every k with every n, in each type. A short run has one row, a few or many in a type, a kernel each; that
// these give the same bits in each type is another test's.
TEST_CASE("products of every type and shape") {
  const std::vector<uint32_t> kinds[] = {{1}, {2, 4, 5}, {8, 9, 17, 33}};
  size_t kind = 0;
  const std::vector<DeviceProfile> profiles = profiles_to_test();
  for (const DeviceProfile& profile : profiles) {
    for (TensorType type : turns_of(weight_types, 3, first_turn() + (&profile - profiles.data()))) {
      std::vector<uint32_t> counts = kinds[kind++ % std::size(kinds)];
      if (every_case()) counts.assign(std::begin(all_rows), std::end(all_rows));
      // The row counts take turns, so that each meets each k and each n.
      size_t turn = 0;
      for (uint32_t k : all_k) {
        if (k % info(type).block_size != 0) continue;
        for (uint32_t n : all_n) {
          for (int i = 0; i < 3; ++i) {
            const uint32_t rows = counts[turn++ % counts.size()];
            check_product(profile, {.type = type, .k = k, .n = n, .bucket = rows, .count = rows});
          }
          ++turn;
        }
      }
    }
  }
}

TEST_CASE("the plain kernel's products of weights that are packed for a CPU driver" *
          doctest::test_suite("rest")) {
  DeviceProfile profile = TestGpu::get().profile;
  profile.cpu8 = profile.uniform_loads = profile.half_loads = true;
  profile.forced = "portable";
  REQUIRE(profile.weight_lane_bytes(TensorType::f32) == 4);
  REQUIRE(profile.weight_lane_bytes(TensorType::f16) == 2);
  for (TensorType type : weight_types) {
    const uint32_t k = 96 % info(type).block_size == 0 ? 96u : 256u;
    check_product(profile, {.type = type, .k = k, .n = 33, .bucket = 5, .count = 5});
  }
}

TEST_CASE("products of rows that workgroups take evenly, and of fewer in their place" *
          doctest::test_suite("rest")) {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType type : weight_types) {
      const uint32_t k = 96 % info(type).block_size == 0 ? 96u : 256u;
      for (uint32_t count : {16u, 3u}) {
        check_product(profile, {.type = type, .k = k, .n = 33, .bucket = 16, .count = count});
      }
    }
    check_product(profile, {.type = TensorType::f16, .k = 96, .n = 33, .bucket = 64, .count = 35});
    check_product(profile,
                  {.type = TensorType::q8_0, .k = 96, .n = 33, .bucket = 32, .count = 32, .gated = true});
  }
}

TEST_CASE("products of rows that fill no whole groups, which have memory") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t bucket : {16u, 17u, 31u, 33u, 63u, 67u}) {
      for (uint32_t count : {bucket, 1u}) {
        check_product(profile, {.type = TensorType::f16,
                                .k = 96,
                                .n = 33,
                                .bucket = bucket,
                                .count = count,
                                .padded_rows = true});
        check_product(profile, {.type = TensorType::q8_0,
                                .k = 64,
                                .n = 16,
                                .bucket = bucket,
                                .count = count,
                                .residual = true,
                                .padded_rows = true});
        check_product(profile, {.type = TensorType::q4_0,
                                .k = 64,
                                .n = 16,
                                .bucket = bucket,
                                .count = count,
                                .gated = true,
                                .padded_rows = true});
        check_product(profile, {.type = TensorType::f32,
                                .k = 40,
                                .n = 9,
                                .bucket = bucket,
                                .count = count,
                                .row_scale = true,
                                .padded_rows = true});
      }
    }
  }
}

TEST_CASE("products that are also timed" * doctest::test_suite("rest")) {
  for (const DeviceProfile& profile : {TestGpu::get().profile, DeviceProfile{}}) {
    std::vector<timed_cases::Product> cases = timed_cases::products();
    std::erase_if(cases, [](const timed_cases::Product& each) { return each.only_timed; });
    for (const timed_cases::Product& each : turns_of(cases, 4)) { // three of each type
      check_product(profile,
                    {.type = each.type, .k = each.k, .n = each.n, .bucket = each.rows, .count = each.rows});
    }
  }
}

// Each of what is done to a sum, which does not depend on the weight's type or, but for how many are kept, on
// the rows: these take turns.
TEST_CASE("products with biases, residuals, activations and gates") {
  const MatmulCase uses[] = {{.bias = true},
                             {.residual = true},
                             {.bias = true, .residual = true, .activation = Activation::silu},
                             {.bias = true, .residual = true, .activation = Activation::gelu},
                             {.bias = true, .residual = true, .activation = Activation::gelu_tanh},
                             {.bias = true, .residual = true, .activation = Activation::relu},
                             {.gated = true},
                             {.activation = Activation::silu, .gated = true},
                             {.bias = true, .activation = Activation::gelu_tanh, .gated = true}};
  for (const DeviceProfile& profile : profiles_to_test()) {
    size_t turn = 0;
    for (const auto& [use, rows] : in_turn(uses, std::array{1u, 5u, 17u})) {
      MatmulCase c = use;
      c.bucket = c.count = rows;
      c.type = weight_types[turn++ % std::size(weight_types)];
      c.k = std::max(64u, info(c.type).block_size);
      for (uint32_t n : {9u, 100u}) {
        c.n = n;
        check_product(profile, c);
      }
    }
  }
}

TEST_CASE("products of weights that are quantised while they are packed") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType type : weight_types) {
      if (!can_quantize(type)) continue;
      for (TensorType source : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
        for (uint32_t k : {1u, 33u, 300u, 544u}) { // whole blocks of 32, and of 256, and neither
          CAPTURE(info(source).name);
          check_product(profile, {.type = source, .k = k, .n = 9, .quantised = type});
        }
      }
    }
  }
}

TEST_CASE("gated products, of types with one scale, with two, with minimums, and with none") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    constexpr TensorType types[] = {TensorType::f16, TensorType::q8_0, TensorType::q4_k, TensorType::q6_k};
    for (const auto& [type, rows] : in_turn(types, std::array{1u, 4u, 9u})) {
      check_product(profile, {.type = type,
                              .k = 96 % info(type).block_size == 0 ? 96u : 256u,
                              .n = 33,
                              .bucket = rows,
                              .count = rows,
                              .activation = Activation::silu,
                              .gated = true});
    }
  }
}

TEST_CASE("a product of a step smaller than its bucket, and of a weight in two parts") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {0u, 1u, 3u, 8u, 17u}) {
      check_product(profile, {.type = TensorType::q8_0, .n = 33, .bucket = 17, .count = count});
      check_product(
          profile,
          {.type = TensorType::q8_0, .n = 33, .bucket = 17, .count = count, .rows_kind = ROWS_OUTPUTS});
    }
    for (uint32_t rows : {1u, 4u, 9u}) {
      check_product(profile, {.type = TensorType::f16,
                              .n = 100,
                              .bucket = rows,
                              .count = rows,
                              .bias = true,
                              .residual = true,
                              .split = true});
      check_product(profile, {.type = TensorType::f16,
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
  for (DeviceProfile profile : profiles_to_test()) {
    if (!profile.cpu8)
      profile.forced = "portable"; // there, variants share the work between them by the rows' number
    // In a short run every third type for CPU drivers, and a few in the plain kernel.
    for (TensorType type : turns_of(weight_types, profile.cpu8 ? 3 : 8, first_turn())) {
      for (bool gated : {false, true}) {
        if (gated && type != TensorType::q8_0) continue; // the sums are the same code
        CAPTURE(profile.cpu8);
        CAPTURE(profile.uniform_loads);
        CAPTURE(profile.vector_registers);
        CAPTURE(info(type).name);
        const TestProduct product(profile, {.type = type,
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
        for (uint32_t rows : {4u, 2u, 7u, 12u}) {
          if (rows != 4 && type != TensorType::f16 && type != TensorType::q8_0) continue;
          CAPTURE(rows);
          const std::vector<uint32_t> some = bits(8, rows, rows);
          CHECK(std::equal(some.begin(), some.end(), together.begin() + static_cast<ptrdiff_t>(8 * stride)));
        }
      }
    }
  }
}
