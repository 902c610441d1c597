#include "kernel/position.h"

#include <map>
#include <numbers>

#include <doctest/doctest.h>

#include "io/tensor_type.h"
#include "kernel/position_reference.h"
#include "kernel/rows.h"

using namespace pumice;

namespace {

struct Case {
  RotaryPairs pairs = RotaryPairs::half_split;
  uint32_t head_dim = 64;
  uint32_t rotary_dim = 64;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  CacheType type = CacheType::f32;
  uint32_t capacity = 64;
  uint32_t bucket = 4;
  std::vector<StepRow> rows;
  uint32_t seed = 1;
};

std::vector<StepRow> rows_from(uint32_t count, uint32_t position, uint32_t sequence = 0) {
  std::vector<StepRow> rows(count);
  for (uint32_t i = 0; i < count; ++i) rows[i] = {0, position + i, sequence, 0};
  return rows;
}

// What a cache should hold afterwards: places that were written, all others as they were.
using Written = std::map<size_t, double>;

double half_error(double wanted, float got) {
  int exponent = 0;
  std::frexp(wanted, &exponent);
  const double half_step = std::ldexp(1.0, std::max(exponent - 12, -24)); // a whole one among subnormals
  return std::abs(got - wanted) / half_step;
}

void check_cache(const CacheLayout& layout, const BufferRef& buffer, const Written& written) {
  TestGpu& gpu = TestGpu::get();
  std::vector<float> got;
  float before = sentinel;
  if (layout.type == CacheType::f32) {
    got = gpu.read<float>(buffer);
  } else {
    for (uint16_t half : gpu.read<uint16_t>(buffer)) got.push_back(half_to_float(half));
    before = half_to_float(0x7a12);
  }
  size_t touched = 0;
  for (size_t i = 0; i < got.size(); ++i) touched += got[i] != before && !written.count(i);
  CHECK(touched == 0);
  double difference = 0, total = 0, worst_half = 0;
  for (const auto& [at, wanted] : written) {
    difference += (got[at] - wanted) * (got[at] - wanted);
    total += wanted * wanted;
    // A millionth of a step more than rounding allows: the number before it is in 32 bits.
    if (layout.type == CacheType::f16) worst_half = std::max(worst_half, half_error(wanted, got[at]));
  }
  if (layout.type == CacheType::f16) {
    CHECK(worst_half <= 1.01);
  } else if (total > 0) {
    CHECK(std::sqrt(difference / total) <= 1e-6);
  }
}

BufferRef new_cache(const CacheLayout& layout) {
  const size_t elements = layout.layer_bytes() / layout.element_bytes();
  if (layout.type == CacheType::f32) return TestGpu::get().upload(std::vector<float>(elements, sentinel));
  return TestGpu::get().upload(std::vector<uint16_t>(elements, 0x7a12));
}

void run(const KernelStyle& style, const Case& c, const std::vector<double>& frequencies) {
  CAPTURE(style.workgroup);
  CAPTURE(to_string(c.pairs));
  CAPTURE(to_string(c.type));
  CAPTURE(c.head_dim);
  CAPTURE(c.rotary_dim);
  CAPTURE(c.rows.size());
  TestGpu& gpu = TestGpu::get();
  CacheLayout layout;
  layout.type = c.type;
  layout.sequences = 2;
  layout.capacity = c.capacity;
  layout.kv_heads = c.kv_heads;
  layout.head_dim = c.head_dim;
  const uint32_t q_columns = c.heads * c.head_dim, kv_columns = c.kv_heads * c.head_dim;
  const std::vector<float> q = random_values(size_t{c.bucket} * q_columns, c.seed);
  const std::vector<float> k = random_values(size_t{c.bucket} * kv_columns, c.seed + 1);
  const std::vector<float> v = random_values(size_t{c.bucket} * kv_columns, c.seed + 2);

  std::vector<double> expected;
  Written keys, values;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto [token, position, sequence, visible] = c.rows[row];
    const auto head_of = [&](const std::vector<float>& from, uint32_t columns, uint32_t head) {
      return std::span(from).subspan(row * columns + head * c.head_dim, c.head_dim);
    };
    for (uint32_t head = 0; head < c.heads; ++head) {
      const auto out = rotary_reference(head_of(q, q_columns, head), c.pairs, frequencies, position);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    for (uint32_t head = 0; head < c.kv_heads; ++head) {
      const auto key = rotary_reference(head_of(k, kv_columns, head), c.pairs, frequencies, position);
      const std::span<const float> value = head_of(v, kv_columns, head);
      for (uint32_t d = 0; d < layout.head_dim_padded(); ++d) {
        keys[key_index(layout, sequence, head, position, d)] = d < c.head_dim ? key[d] : 0;
        values[value_index(layout, sequence, head, position, d)] = d < c.head_dim ? value[d] : 0;
      }
    }
  }

  RotaryStoreArgs args;
  args.q = upload_rows(q, q_columns, 32, true);
  args.k = upload_rows(k, kv_columns, 64, true);
  args.v = upload_rows(v, kv_columns, 0, true);
  args.heads = c.heads;
  args.head_dim = c.head_dim;
  args.pairs = c.pairs;
  args.rotary_dim = c.rotary_dim;
  if (c.pairs != RotaryPairs::none) args.table = gpu.upload(rotary_table(frequencies));
  args.cache = {layout, new_cache(layout), new_cache(layout)};
  args.result = blank_rows(c.bucket, q_columns, 32);
  args.step = gpu.step(c.rows, {}, c.bucket);
  gpu.run(rotary_store(style, args));
  check_rows(args.result, expected, 1e-6);
  check_cache(layout, args.cache.keys, keys);
  check_cache(layout, args.cache.values, values);
  gpu.clear();
}

void run(const KernelStyle& style, const Case& c) {
  RotaryConfig config;
  config.pairs = c.pairs;
  config.dim = c.rotary_dim;
  run(style, c, rotary_frequencies(config));
}

constexpr RotaryPairs all_pairs[] = {RotaryPairs::none, RotaryPairs::neighbouring, RotaryPairs::half_split};

} // namespace

TEST_CASE("rotation of whole heads") {
  for (const KernelStyle& style : styles_to_test()) {
    uint32_t turn = 0;
    for (uint32_t head_dim : {16u, 20u, 24u, 64u, 80u, 96u, 128u, 256u}) {
      for (RotaryPairs pairs : all_pairs) {
        for (CacheType type : {CacheType::f32, CacheType::f16}) {
          const uint32_t rows = std::array{1u, 2u, 7u, 8u, 9u}[turn++ % 5]; // across tiles of 8 positions
          run(style, {.pairs = pairs,
                      .head_dim = head_dim,
                      .rotary_dim = head_dim,
                      .heads = 4,
                      .kv_heads = 2,
                      .type = type,
                      .bucket = rows,
                      .rows = rows_from(rows, 5, turn % 2)});
        }
      }
    }
  }
}

TEST_CASE("rotation of a part of each head") {
  for (const KernelStyle& style : styles_to_test()) {
    for (auto [head_dim, rotary_dim] :
         {std::pair{64u, 16u}, {80u, 32u}, {64u, 6u}, {20u, 10u}, {96u, 2u}, {24u, 0u}}) {
      for (RotaryPairs pairs : {RotaryPairs::neighbouring, RotaryPairs::half_split}) {
        if (rotary_dim == 0 && pairs == RotaryPairs::neighbouring) continue;
        Case c = {.pairs = pairs, .head_dim = head_dim, .rotary_dim = rotary_dim, .type = CacheType::f16};
        c.rows = rows_from(4, 30);
        if (rotary_dim == 0) {
          run(style, c, {});
        } else {
          run(style, c);
        }
      }
    }
  }
}

TEST_CASE("rotation with one, some and all heads for keys") {
  for (const KernelStyle& style : styles_to_test()) {
    for (auto [heads, kv_heads] : {std::pair{1u, 1u}, {5u, 1u}, {6u, 3u}, {9u, 3u}, {7u, 7u}}) {
      for (CacheType type : {CacheType::f32, CacheType::f16}) {
        run(style, {.head_dim = 20,
                    .rotary_dim = 20,
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .type = type,
                    .bucket = 33,
                    .rows = rows_from(33, 14)});
      }
    }
  }
}

TEST_CASE("rotation of rows of several sequences, and of fewer rows than the bucket has") {
  for (const KernelStyle& style : styles_to_test()) {
    for (CacheType type : {CacheType::f32, CacheType::f16}) {
      const std::vector<StepRow> rows = {
          {0, 63, 1, 0}, {0, 0, 0, 0}, {0, 7, 1, 0}, {0, 63, 0, 0}, {0, 8, 1, 0}};
      for (size_t count : {0, 1, 5}) {
        Case c = {.head_dim = 24, .rotary_dim = 24, .type = type, .bucket = 9};
        c.rows.assign(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count));
        run(style, c);
      }
    }
  }
}

TEST_CASE("a position outside the cache writes nothing") {
  TestGpu& gpu = TestGpu::get();
  for (const KernelStyle& style : styles_to_test()) {
    for (const StepRow& row :
         {StepRow{0, 64, 0, 0}, StepRow{0, 0, 2, 0}, StepRow{0, 0xffffffffu, 0xffffffffu, 0}}) {
      RotaryStoreArgs args;
      CacheLayout layout{CacheType::f16, 2, 64, 1, 16};
      args.q = upload_rows(random_values(32, 1), 32);
      args.k = args.v = upload_rows(random_values(16, 2), 16);
      args.heads = 2;
      args.head_dim = 16;
      args.cache = {layout, new_cache(layout), new_cache(layout)};
      args.result = blank_rows(1, 32);
      args.step = gpu.step(std::span(&row, 1), {}, 1);
      gpu.run(rotary_store(style, args));
      check_cache(layout, args.cache.keys, {});
      check_cache(layout, args.cache.values, {});
      gpu.clear();
    }
  }
}

TEST_CASE("rotation is exact at far positions") {
  for (const KernelStyle& style : styles_to_test()) {
    for (float base : {10000.0f, 500000.0f}) {
      for (RotaryPairs pairs : {RotaryPairs::neighbouring, RotaryPairs::half_split}) {
        Case c = {.pairs = pairs, .head_dim = 16, .rotary_dim = 16, .heads = 2, .kv_heads = 1};
        c.capacity = 131072;
        c.rows = {
            {0, 131071, 0, 0}, {0, 131070, 1, 0}, {0, 100003, 0, 0}, {0, 65537, 0, 0}, {0, 32768, 1, 0}};
        c.bucket = 5;
        RotaryConfig config;
        config.dim = c.rotary_dim;
        config.base = base;
        run(style, c, rotary_frequencies(config));
      }
    }
  }
}

TEST_CASE("the cosines and sines themselves, at every eighth of a turn and near it") {
  // One dimension pair a head, of length one, so that each row shows its cosine and sine.
  const std::vector<double> frequencies = {2 * std::numbers::pi / 1024};
  for (const KernelStyle& style : styles_to_test()) {
    std::vector<StepRow> rows;
    for (uint32_t eighth = 0; eighth <= 8; ++eighth) {
      for (uint32_t near : {1023u, 0u, 1u}) rows.push_back({0, eighth * 128 + near, 0, 0});
    }
    Case c = {.pairs = RotaryPairs::neighbouring, .head_dim = 4, .rotary_dim = 2, .heads = 1, .kv_heads = 1};
    c.capacity = 2080;
    c.bucket = static_cast<uint32_t>(rows.size());
    c.rows = rows;
    run(style, c, frequencies);
  }
}

TEST_CASE("frequencies: plain, linear, llama3, divided") {
  RotaryConfig config;
  config.dim = 128;
  config.base = 500000;
  const std::vector<double> plain = rotary_frequencies(config);
  REQUIRE(plain.size() == 64);
  CHECK(plain[0] == 1.0);
  CHECK(plain[32] == doctest::Approx(1 / std::sqrt(500000.0)).epsilon(1e-14));

  config.scaling = RotaryScaling::linear;
  config.factor = 4;
  CHECK(rotary_frequencies(config)[5] == plain[5] / 4);

  // Llama 3.1: short wavelengths are kept, those above 8192 are stretched, between them it goes over.
  config.scaling = RotaryScaling::llama3;
  config.factor = 8;
  const std::vector<double> llama3 = rotary_frequencies(config);
  for (size_t i = 0; i < 64; ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    if (wavelength < 8192.0 / 4) {
      CHECK(llama3[i] == plain[i]);
    } else if (wavelength > 8192.0) {
      CHECK(llama3[i] == plain[i] / 8);
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      CHECK(llama3[i] == doctest::Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i]).epsilon(1e-12));
    }
  }

  config.scaling = RotaryScaling::none;
  config.factors.assign(64, 2.0f);
  config.factors[3] = 0;
  const std::vector<double> divided = rotary_frequencies(config);
  CHECK(divided[7] == plain[7] / 2);
  CHECK(rotary_table(divided).size() ==
        128); // a divisor of zero, which a damaged file may hold, does no harm
}
