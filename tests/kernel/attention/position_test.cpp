#include "kernel/position/position.h"

#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include <doctest/doctest.h>

#include "kernel/attention/cache_reference.h"
#include "kernel/attention/position_reference.h"
#include "kernel/products/rows.h"
#include "kernel/test_lowering.h"
#include "support/in_turn.h"

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
  uint32_t window = 0; // not 0: a ring
  float magnitude = 1;
  float growth = 0; // of queries
  uint32_t growth_length = 0;
  uint32_t growth_start = 0;
  bool query_norm = false;
  bool key_norm = false;
  bool norm_after = false;
  float norm_offset = 0;
  uint32_t seed = 1;
};

std::vector<StepRow> rows_from(uint32_t count, uint32_t position, uint32_t sequence = 0) {
  std::vector<StepRow> rows(count);
  for (uint32_t i = 0; i < count; ++i) rows[i] = {0, position + i, sequence, 0};
  return rows;
}

using cache_reference::Place;
using cache_reference::Side;

// What a cache should hold afterwards, by byte: the heads that were written, all other bytes as they were.
struct Written {
  Place place;
  std::vector<double> values;
};

// How far a number may be from what was stored: half a step of the type's, and a little for the arithmetic.
double tolerance(CacheType type, double wanted, double scale) {
  if (type == CacheType::f32) return std::abs(wanted) * 1e-6 + 2e-7;
  // A number of four bits is 7 at most.
  if (is_scaled(type))
    return std::abs(scale) * std::max(type == CacheType::q4_0 ? wanted / scale - 6.9995 : 0, 0.5005) + 2e-7;
  int exponent = 0;
  std::frexp(wanted, &exponent);
  return std::ldexp(1.0, std::max(exponent - 12, -24)) + 2e-7;
}

double read_element(const CacheLayout& layout, Side side, const Place& place, size_t d,
                    const std::vector<uint8_t>& bytes) {
  const uint8_t* at = bytes.data() + cache_reference::element_offset(layout, side, place, d);
  const CacheType type = cache_reference::type_of(layout, side);
  if (type == CacheType::f32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t half;
  if (type == CacheType::f16) {
    std::memcpy(&half, at, sizeof(half));
    return cache_reference::from_half(half);
  }
  std::memcpy(&half, bytes.data() + cache_reference::scale_offset(layout, side, place, d / 32), sizeof(half));
  return double{cache_reference::from_half(half)} * cache_reference::number_of(type, *at, d);
}

void check_cache(const CacheLayout& layout, Side side, const BufferRef& buffer,
                 const std::vector<Written>& written) {
  const std::vector<uint8_t> got = TestGpu::get().read<uint8_t>(buffer);
  std::vector<uint8_t> untouched = got; // once what was written is as before, all has to be
  const std::vector<uint8_t> before = cache_reference::unwritten(layout, side);
  const CacheType type = cache_reference::type_of(layout, side);
  const size_t size = type == CacheType::f32 ? 4 : type == CacheType::f16 ? 2 : 1;
  size_t wrong = 0;
  for (const Written& one : written) {
    const std::vector<float> values(one.values.begin(), one.values.end());
    for (size_t d = 0; d < layout.head_dim_padded(); ++d) {
      const double wanted = d < one.values.size() ? one.values[d] : 0;
      const double scale = cache_reference::block_scale(type, values, d / 32);
      const double actual = read_element(layout, side, one.place, d, got);
      wrong += !(std::abs(actual - wanted) <= tolerance(type, wanted, scale));
      const size_t at = cache_reference::element_offset(layout, side, one.place, d);
      std::copy_n(before.begin() + at, size, untouched.begin() + at);
      if (!is_scaled(type)) continue;
      const size_t scale_at = cache_reference::scale_offset(layout, side, one.place, d / 32);
      std::copy_n(before.begin() + scale_at, 2, untouched.begin() + scale_at);
    }
  }
  CHECK(wrong == 0);
  CHECK(untouched == before);
}

BufferRef new_cache(const CacheLayout& layout, Side side) {
  return TestGpu::get().upload(cache_reference::unwritten(layout, side));
}

void run(const DeviceProfile& profile, const Case& c, const std::vector<double>& frequencies) {
  CAPTURE(profile.workgroup);
  CAPTURE(std::string(to_string(c.pairs)));
  CAPTURE(std::string(to_string(c.type)));
  CAPTURE(c.head_dim);
  CAPTURE(c.rotary_dim);
  CAPTURE(c.rows.size());
  CAPTURE(c.query_norm);
  CAPTURE(c.key_norm);
  CAPTURE(c.norm_after);
  TestGpu& gpu = TestGpu::get();
  CacheLayout layout;
  layout.type = c.type;
  layout.sequences = 2;
  layout.capacity = c.capacity;
  layout.kv_heads = c.kv_heads;
  layout.head_dim = c.head_dim;
  layout.window = c.window;
  const uint32_t q_columns = c.heads * c.head_dim, kv_columns = c.kv_heads * c.head_dim;
  const std::vector<float> q = random_values(size_t{c.bucket} * q_columns, c.seed);
  const std::vector<float> k = random_values(size_t{c.bucket} * kv_columns, c.seed + 1);
  const std::vector<float> v = random_values(size_t{c.bucket} * kv_columns, c.seed + 2);

  const float eps = 1e-5f;
  const std::vector<float> query_norm = random_values(c.query_norm ? c.head_dim : 0, c.seed + 3);
  const std::vector<float> key_norm = random_values(c.key_norm ? c.head_dim : 0, c.seed + 4);

  std::vector<double> expected;
  std::vector<Written> keys, values;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto [token, position, sequence, visible] = c.rows[row];
    const uint32_t counted = position - std::min(visible, position); // from the first that the row may see
    const auto head_of = [&](const std::vector<float>& from, uint32_t columns, uint32_t head) {
      return std::span(from).subspan(row * columns + head * c.head_dim, c.head_dim);
    };
    const auto rotated = [&](std::span<const float> head, const std::vector<float>& weights) {
      const auto norm = [&](std::vector<double> a) {
        return head_norm_reference(std::move(a), weights, eps, c.norm_offset);
      };
      const auto turn = [&](const std::vector<double>& a) {
        return rotary_reference(a, c.pairs, frequencies, counted, c.magnitude);
      };
      const std::vector<double> own(head.begin(), head.end());
      return c.norm_after ? norm(turn(own)) : turn(norm(own));
    };
    for (uint32_t head = 0; head < c.heads; ++head) {
      auto out = rotated(head_of(q, q_columns, head), query_norm);
      for (double& a : out) a *= query_growth_reference(c.growth, c.growth_length, counted + c.growth_start);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    for (uint32_t head = 0; head < c.kv_heads; ++head) {
      const std::span<const float> value = head_of(v, kv_columns, head);
      keys.push_back({{sequence, head, position}, rotated(head_of(k, kv_columns, head), key_norm)});
      values.push_back({{sequence, head, position}, {value.begin(), value.end()}});
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
  args.magnitude = c.magnitude;
  args.query_growth = c.growth;
  args.growth_length = c.growth_length;
  args.growth_start = c.growth_start;
  args.query_norm = c.query_norm;
  args.key_norm = c.key_norm;
  args.norm_after = c.norm_after;
  args.norm_eps = eps;
  args.norm_offset = c.norm_offset;
  std::vector<float> table;
  if (c.pairs != RotaryPairs::none) table = rotary_table(frequencies);
  table.insert(table.end(), query_norm.begin(), query_norm.end());
  table.insert(table.end(), key_norm.begin(), key_norm.end());
  if (!table.empty()) args.table = gpu.upload(table);
  args.cache = {layout, new_cache(layout, Side::keys), new_cache(layout, Side::values)};
  args.result = blank_rows(c.bucket, q_columns, 32);
  args.step = gpu.step(c.rows, {}, c.bucket);
  gpu.run(rotary_store(profile, args));
  check_rows(args.result, expected, 1e-6);
  check_cache(layout, Side::keys, args.cache.keys, keys);
  check_cache(layout, Side::values, args.cache.values, values);
  gpu.clear();
}

void run(const DeviceProfile& profile, const Case& c) {
  RotaryConfig config;
  config.pairs = c.pairs;
  config.dim = c.rotary_dim;
  run(profile, c, rotary_frequencies(config));
}

constexpr CacheType stored_types[] = {CacheType::f32,      CacheType::f16,      CacheType::q8_0,
                                      CacheType::f16_q8_0, CacheType::q8_0_f16, CacheType::q4_0,
                                      CacheType::q8_0_q4_0};
constexpr RotaryPairs all_pairs[] = {RotaryPairs::none, RotaryPairs::neighbouring, RotaryPairs::half_split};

} // namespace

// Each head size, number of rows across tiles of eight positions, way of pairing and type, in turn.
TEST_CASE("rotation of whole heads") {
  constexpr uint32_t dims[] = {2, 6, 20, 24, 64, 80, 128, 320, 512}, counts[] = {1, 2, 7, 8, 9};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [head_dim, pairs, type] : in_turn(dims, all_pairs, stored_types)) {
      const uint32_t rows = counts[head_dim % std::size(counts)];
      run(profile, {.pairs = pairs,
                    .head_dim = head_dim,
                    .rotary_dim = head_dim,
                    .heads = 4,
                    .kv_heads = 2,
                    .type = type,
                    .bucket = rows,
                    .rows = rows_from(rows, 5, rows % 2)});
    }
  }
}

TEST_CASE("rotation in each half of the heads") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [head_dim, type] : in_turn(std::array{4u, 20u, 24u, 64u, 72u}, stored_types)) {
      Case c = {.pairs = RotaryPairs::quarters, .head_dim = head_dim, .rotary_dim = head_dim, .type = type};
      c.query_norm = c.key_norm = takes(head_dim % 8 == 0);
      c.rows = rows_from(3, 17);
      run(profile, c);
    }
  }
}

TEST_CASE("rotation of a part of each head") {
  constexpr std::pair<uint32_t, uint32_t> sizes[] = {{64, 16}, {80, 32}, {64, 6}, {20, 10},
                                                     {5, 4},   {13, 6},  {24, 0}};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [size, pairs] :
         in_turn(sizes, std::array{RotaryPairs::half_split, RotaryPairs::neighbouring})) {
      const auto [head_dim, rotary_dim] = size;
      if (rotary_dim == 0 && pairs == RotaryPairs::neighbouring) continue;
      Case c = {.pairs = pairs, .head_dim = head_dim, .rotary_dim = rotary_dim, .type = CacheType::f16};
      c.rows = rows_from(4, 30);
      if (rotary_dim == 0) {
        run(profile, c, {});
      } else {
        run(profile, c);
      }
    }
  }
}

TEST_CASE("rotation with one, some and all heads for keys") {
  constexpr std::pair<uint32_t, uint32_t> heads[] = {{1, 1}, {5, 1}, {6, 3}, {9, 3}, {7, 7}};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [count, type] : in_turn(heads, stored_types)) {
      run(profile, {.head_dim = 20,
                    .rotary_dim = 20,
                    .heads = count.first,
                    .kv_heads = count.second,
                    .type = type,
                    .bucket = 33,
                    .rows = rows_from(33, 14)});
    }
  }
}

TEST_CASE("norms over heads before and after the rotation") {
  struct Norms {
    bool query, key, after;
  };
  constexpr Norms norms[] = {{true, true, false},
                             {true, false, false},
                             {false, true, false},
                             {true, true, true},
                             {false, true, true}};
  for (const DeviceProfile& profile : profiles_to_test()) {
    uint32_t turn = 0;
    for (const auto& [norm, head_dim] : in_turn(norms, std::array{5u, 20u, 64u, 128u})) {
      Case c = {.head_dim = head_dim, .rotary_dim = head_dim / 2 * 2, .bucket = 9};
      c.rows = rows_from(9, 12);
      c.query_norm = norm.query;
      c.key_norm = norm.key;
      c.norm_after = norm.after;
      c.norm_offset = turn % 2 ? 1.0f : 0.0f;
      c.type = stored_types[turn % 3];
      c.pairs = all_pairs[turn++ / 2 % 3];
      run(profile, c);
    }
  }
}

TEST_CASE("positions are counted from the first one that a row may see") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (RotaryPairs pairs : all_pairs) {
      Case c = {.pairs = pairs, .bucket = 12, .rows = rows_from(12, 40)};
      for (size_t i = 0; i < c.rows.size(); ++i) c.rows[i].first_visible = i < 5 ? 40 : 45;
      run(profile, c);
    }
  }
}

TEST_CASE("pairs turn with places in a text and in its pictures") {
  TestGpu& gpu = TestGpu::get();
  struct Placed {
    uint32_t position, sequence, position_offset, down, across;
  };
  // Two sequences, whose texts lag 7 and 0 behind; the rows of pictures are at other places.
  const std::vector<Placed> rows = {
      {20, 0, 7, 0, 0}, {21, 0, 5, 2, 9}, {40, 0, 0, 0, 0}, {22, 0, 0xfffffffe, 300, 1}, {20, 1, 0, 0, 0}};
  const std::array<uint32_t, 2> lags = {7, 0};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const PlaceKind kind : {PlaceKind::text, PlaceKind::interleaved, PlaceKind::patches}) {
      RotaryConfig config{.pairs = RotaryPairs::half_split, .dim = 24, .places = kind};
      const bool text_too = kind != PlaceKind::patches;
      if (text_too) config.text_pairs = 3, config.down_pairs = 4;
      const std::vector<double> frequencies = rotary_frequencies(config);
      const uint32_t down_pairs = text_too ? 4 : 6;
      const StepLayout layout{8, 2, 0};
      std::vector<uint32_t> block(layout.bytes() / 4);
      block[0] = static_cast<uint32_t>(rows.size());
      std::vector<double> expected;
      const std::vector<float> q = random_values(8 * 48, 1);
      for (uint32_t i = 0; i < rows.size(); ++i) {
        const Placed& row = rows[i];
        uint32_t* quad = block.data() + 4 * (STEP_HEADER_QUADS + i);
        quad[1] = row.position;
        quad[2] = row.sequence;
        block[4 * (layout.details() + i) + 2] = row.down << 16 | row.across;
        block[4 * (layout.details() + i) + 3] = row.position_offset;
        const uint32_t text = text_too ? row.position - lags[row.sequence] + row.position_offset : 0;
        for (uint32_t head = 0; head < 2; ++head) {
          std::vector<double> out(24);
          for (uint32_t pair = 0; pair < 12; ++pair) {
            // T H W T H W T H W T H W: of the five across there is room for four.
            const bool is_down = kind == PlaceKind::interleaved
                                     ? pair % 3 == 1
                                     : pair >= config.text_pairs && pair < config.text_pairs + down_pairs;
            const bool is_text = kind == PlaceKind::interleaved ? pair % 3 == 0 : pair < config.text_pairs;
            const uint32_t place = is_text ? text : is_down ? text + row.down : text + row.across;
            const double a = q[i * 48 + head * 24 + pair], b = q[i * 48 + head * 24 + pair + 12];
            const double turn = place * frequencies[pair];
            out[pair] = a * std::cos(turn) - b * std::sin(turn);
            out[pair + 12] = b * std::cos(turn) + a * std::sin(turn);
          }
          expected.insert(expected.end(), out.begin(), out.end());
        }
      }
      for (uint32_t i = 0; i < 2; ++i) block[4 * (layout.sequence_quads() + i) + 2] = lags[i];
      RotaryStoreArgs args;
      args.q = upload_rows(q, 48, 32, true);
      args.k = upload_rows(random_values(8 * 24, 2), 24, 64, true);
      args.v = upload_rows(random_values(8 * 24, 3), 24, 0, true);
      args.heads = 2;
      args.head_dim = args.rotary_dim = 24;
      args.pairs = config.pairs;
      args.places = kind;
      args.text_pairs = config.text_pairs;
      args.down_pairs = down_pairs;
      args.step_layout = layout;
      args.table = gpu.upload(rotary_table(frequencies));
      CacheLayout cache;
      cache.sequences = 2;
      cache.capacity = 64;
      cache.kv_heads = 1;
      cache.head_dim = 24;
      args.cache = {cache, new_cache(cache, Side::keys), new_cache(cache, Side::values)};
      args.result = blank_rows(8, 48, 32);
      args.step = gpu.upload(block);
      gpu.run(rotary_store(profile, args));
      check_rows(args.result, expected, 1e-6);
      gpu.clear();
    }
  }
  // Those of patches are the same for down and across, as Qwen 2.5-VL has them.
  RotaryConfig config{.pairs = RotaryPairs::half_split, .dim = 16, .places = PlaceKind::patches};
  const std::vector<double> found = rotary_frequencies(config);
  for (size_t i = 0; i < 8; ++i) CHECK(found[i] == doctest::Approx(std::pow(10000.0, -0.25 * (i % 4))));
}

TEST_CASE("queries grow with their position, and keys do not") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [pairs, start] : in_turn(all_pairs, std::array{0u, 1u})) {
      Case c = {.pairs = pairs, .bucket = 12, .rows = rows_from(12, 40)};
      c.growth = 0.5f;
      c.growth_length = 9;
      c.growth_start = start;
      run(profile, c);
    }
  }
}

TEST_CASE("a magnitude multiplies what is rotated and nothing else") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rotary_dim : {64u, 16u}) {
      Case c = {.rotary_dim = rotary_dim, .type = CacheType::f16, .rows = rows_from(3, 17)};
      c.magnitude = 1.25f;
      run(profile, c);
    }
  }
}

TEST_CASE("a ring takes any position") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (CacheType type : stored_types) {
      Case c = {.head_dim = 20, .rotary_dim = 20, .type = type, .capacity = 32, .bucket = 9, .window = 7};
      c.rows = rows_from(9, 28); // across its end
      run(profile, c);
      c.rows = rows_from(9, 1000003, 1);
      run(profile, c);
    }
  }
}

TEST_CASE("rotation of rows of several sequences, and of fewer rows than the bucket has") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (CacheType type : stored_types) {
      const std::vector<StepRow> rows = {
          {0, 63, 1, 0}, {0, 0, 0, 0}, {0, 7, 1, 0}, {0, 63, 0, 0}, {0, 8, 1, 0}};
      for (size_t count : {0, 1, 5}) {
        Case c = {.head_dim = 24, .rotary_dim = 24, .type = type, .bucket = 9};
        c.rows.assign(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count));
        run(profile, c);
      }
    }
  }
}

TEST_CASE("keys and values are stored in the cache without rotation") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (CacheType type : stored_types) {
      for (auto [head_dim, kv_heads] : {std::pair{24u, 3u}, {5u, 1u}}) {
        // Two inputs and a token alone, packed into one sequence, and a row fewer than the bucket has.
        const std::vector<StepRow> rows = {{0, 8, 0, 8}, {0, 9, 0, 8}, {0, 32, 0, 32}, {0, 63, 0, 63}};
        const CacheLayout layout{type, 1, 64, kv_heads, head_dim};
        const uint32_t columns = kv_heads * head_dim;
        const std::vector<float> k = random_values(5 * columns, 1), v = random_values(5 * columns, 2);
        std::vector<Written> keys, values;
        for (size_t row = 0; row < rows.size(); ++row) {
          for (uint32_t head = 0; head < kv_heads; ++head) {
            const auto at = static_cast<ptrdiff_t>(row * columns + head * head_dim);
            const Place place = {0, head, rows[row].position};
            keys.push_back({place, {k.begin() + at, k.begin() + at + head_dim}});
            values.push_back({place, {v.begin() + at, v.begin() + at + head_dim}});
          }
        }
        Graph graph;
        const TensorId k_id = graph.add_tensor({"k", RowKind::tokens, columns});
        const TensorId v_id = graph.add_tensor({"v", RowKind::tokens, columns});
        cache_store(graph, "store", k_id, v_id, 7);
        REQUIRE(graph.nodes().size() == 1);
        TestLowering lowering(profile, graph, gpu.step(rows, {}, 5));
        const CacheRef cache = {layout, new_cache(layout, Side::keys), new_cache(layout, Side::values)};
        lowering.place_cache(7, cache);
        lowering.place(k_id, upload_rows(k, columns, 32, true));
        lowering.place(v_id, upload_rows(v, columns, 0, true));
        REQUIRE(lowering.lower(0));
        lowering.run();
        check_cache(layout, Side::keys, cache.keys, keys);
        check_cache(layout, Side::values, cache.values, values);
        gpu.clear();
      }
    }
  }
}

TEST_CASE("keys of another width than the cache's are refused") {
  Graph graph;
  const TensorId k = graph.add_tensor({"k", RowKind::tokens, 24}),
                 v = graph.add_tensor({"v", RowKind::tokens, 32});
  cache_store(graph, "store", k, v, 0);
  TestLowering lowering(DeviceProfile{}, graph, {});
  lowering.place_cache(0, {{CacheType::f32, 1, 32, 2, 12}, {}, {}});
  lowering.place(k, {{}, 1, 0, 24, 32});
  lowering.place(v, {{}, 1, 0, 32, 32});
  const Status status = lowering.lower(0);
  REQUIRE(!status);
  CHECK(status.error().message == "layer 0: keys of 24 and values of 32 columns do not fit a cache of 24");
}

TEST_CASE("a position outside the cache writes nothing") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const StepRow& row :
         {StepRow{0, 64, 0, 0}, StepRow{0, 0, 2, 0}, StepRow{0, 0xffffffffu, 0xffffffffu, 0}}) {
      RotaryStoreArgs args;
      CacheLayout layout{CacheType::f16, 2, 64, 1, 16};
      args.q = upload_rows(random_values(32, 1), 32);
      args.k = args.v = upload_rows(random_values(16, 2), 16);
      args.heads = 2;
      args.head_dim = 16;
      args.cache = {layout, new_cache(layout, Side::keys), new_cache(layout, Side::values)};
      args.result = blank_rows(1, 32);
      args.step = gpu.step(std::span(&row, 1), {}, 1);
      gpu.run(rotary_store(profile, args));
      check_cache(layout, Side::keys, args.cache.keys, {});
      check_cache(layout, Side::values, args.cache.values, {});
      gpu.clear();
    }
  }
}

TEST_CASE("rotation is exact at far positions") {
  for (const DeviceProfile& profile : profiles_to_test()) {
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
        run(profile, c, rotary_frequencies(config));
      }
    }
  }
}

TEST_CASE("cosines and sines at every eighth of a revolution and near it") {
  // One dimension pair a head, of length one, so that each row shows its cosine and sine.
  const std::vector<double> frequencies = {2 * std::numbers::pi / 1024};
  for (const DeviceProfile& profile : profiles_to_test()) {
    std::vector<StepRow> rows;
    for (uint32_t eighth = 0; eighth <= 8; ++eighth) {
      for (uint32_t near : {1023u, 0u, 1u}) rows.push_back({0, eighth * 128 + near, 0, 0});
    }
    Case c = {.pairs = RotaryPairs::neighbouring, .head_dim = 4, .rotary_dim = 2, .heads = 1, .kv_heads = 1};
    c.capacity = 2080;
    c.bucket = static_cast<uint32_t>(rows.size());
    c.rows = rows;
    run(profile, c, frequencies);
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

TEST_CASE("frequencies: yarn, as its authors' code has it") {
  // DeepSeek's and Qwen's settings. The pairs below `low` turn more than 32 times in the old context, those
  // above `high` less than once.
  RotaryConfig config;
  config.dim = 128;
  config.base = 1000000;
  const std::vector<double> plain = rotary_frequencies(config);
  config.scaling = RotaryScaling::yarn;
  config.factor = 4;
  config.original_context = 32768;
  const std::vector<double> yarn = rotary_frequencies(config);
  const auto revolutions = [&](size_t pair) { return 32768 * plain[pair] / (2 * std::numbers::pi); };
  size_t low = 0, high = 63;
  while (revolutions(low + 1) >= 32) ++low;
  while (revolutions(high - 1) <= 1) --high;
  CHECK(low == 23);
  CHECK(high == 40);
  for (size_t i = 0; i < 64; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    CHECK(yarn[i] == doctest::Approx(plain[i] * (1 - ramp) + plain[i] / 4 * ramp).epsilon(1e-12));
  }
  CHECK(rotary_magnitude(config) == doctest::Approx(0.1 * std::log(4.0) + 1).epsilon(1e-12));

  config.truncate = false; // as gpt-oss has it: the ramp begins between two pairs
  const std::vector<double> exact = rotary_frequencies(config);
  CHECK(exact[23] == plain[23]);
  CHECK(exact[24] > yarn[24]);
  CHECK(exact[39] < yarn[39]);

  config.mscale = 0.707f;
  config.mscale_all_dim = 1;
  const double grown = 0.1 * std::log(4.0);
  CHECK(rotary_magnitude(config) == doctest::Approx((0.707 * grown + 1) / (grown + 1)).epsilon(1e-7));
  config.attention_factor = 1.5f;
  CHECK(rotary_magnitude(config) == 1.5);
  config.attention_factor.reset();
  config.factor = 1;
  CHECK(rotary_magnitude(config) == 1);
}

TEST_CASE("frequencies: longrope takes the table of the session's context") {
  RotaryConfig config;
  config.dim = 8;
  config.scaling = RotaryScaling::longrope;
  config.factor = 32;
  config.original_context = 4096;
  config.factors = {1, 1, 2, 2};
  config.long_factors = {1, 4, 8, 16};
  const std::vector<double> brief = rotary_frequencies(config, 4096),
                            stretched = rotary_frequencies(config, 4097);
  for (size_t i = 0; i < 4; ++i) {
    const double plain = std::pow(10000.0, -2.0 * static_cast<double>(i) / 8);
    CHECK(brief[i] == doctest::Approx(plain / config.factors[i]).epsilon(1e-14));
    CHECK(stretched[i] == doctest::Approx(plain / config.long_factors[i]).epsilon(1e-14));
  }
  CHECK(rotary_magnitude(config) ==
        doctest::Approx(std::sqrt(1 + std::log(32.0) / std::log(4096.0))).epsilon(1e-12));
  config.attention_factor = 1.19f;
  CHECK(rotary_magnitude(config) == doctest::Approx(1.19));
}
