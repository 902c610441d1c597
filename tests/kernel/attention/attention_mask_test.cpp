#include "kernel/attention/attention_case.h"

// What a row sees beside its sequence's past: its whole input, an encoder's input, a shared past.

using namespace attention_case;

namespace {

// A row alone gives the bits that it gives among the others.
void check_rows_alone(const DeviceProfile& profile, const Case& together,
                      std::initializer_list<uint32_t> rows) {
  const Cache cache = make_cache(together);
  const std::vector<float> q = make_queries(together);
  const std::vector<float> all = run(profile, together, cache, q);
  const size_t stride = together.stride(), columns = together.columns();
  for (uint32_t row : rows) {
    Case alone = together;
    alone.rows = {together.rows[row]};
    alone.capacity = 1;
    const auto begin = q.begin() + static_cast<ptrdiff_t>(row * columns);
    const std::vector<float> own(begin, begin + static_cast<ptrdiff_t>(columns));
    INFO(together.text(), " row ", row, " cpu8 ", profile.cpu8);
    CHECK(same_bits(run(profile, alone, cache, own), std::span(all).subspan(row * stride, stride)));
  }
}

// With cache_indirection the bits are the same as with a cache in which each sequence holds all its own
// positions.
void check_copied(const Case& shared, bool weights) {
  Case copied = shared;
  copied.options.cache_indirection.clear();
  copied.options.indirection_positions = 0;
  const Cache cache = make_cache(shared);
  Cache copy(copied.layout, cache.positions);
  const auto dim = static_cast<ptrdiff_t>(copied.layout.head_dim);
  for (const Row& row : shared.rows) {
    const auto [first, end, base] = seen(shared.options, row);
    for (uint32_t position = first; position < end; ++position) {
      const uint32_t holder = cache_sequence(shared.options, row, position);
      for (uint32_t head = 0; head < copied.layout.kv_heads; ++head) {
        const auto from = static_cast<ptrdiff_t>(cache.at(holder, head, position));
        const auto to = static_cast<ptrdiff_t>(copy.at(row.sequence, head, position));
        std::copy_n(cache.keys.begin() + from, dim, copy.keys.begin() + to);
        std::copy_n(cache.values.begin() + from, dim, copy.values.begin() + to);
      }
    }
  }
  const std::vector<float> q = make_queries(shared);
  for (const DeviceProfile& profile : profiles_to_test()) {
    INFO(shared.text(), " cpu8 ", profile.cpu8);
    const Ran a = run_all(profile, shared, cache, q, weights);
    const Ran b = run_all(profile, copied, copy, q, weights);
    CHECK(same_bits(a.result, b.result));
    CHECK(same_bits(a.weights, b.weights));
  }
}

// Windows of these numbers of patches, one after the other in each input.
void give_windows(Case& c, std::initializer_list<uint32_t> sizes) {
  c.options.patch_windows = true;
  for (size_t row = 0; row < c.rows.size();) {
    const uint32_t end = c.rows[row].end;
    for (const uint32_t* size = sizes.begin(); row < c.rows.size() && c.rows[row].end == end;) {
      const uint32_t first = c.rows[row].position, patches = std::min(*size, end - first);
      for (uint32_t i = 0; i < patches; ++i) c.rows[row++].window = first << STEP_WINDOW_BITS | patches;
      if (++size == sizes.end()) size = sizes.begin();
    }
  }
}

} // namespace

// Each mask and bias in each type; what depends on which tokens share a workgroup, in f32 (see make_case()).
TEST_CASE("attention: bidirectional, over a whole input") {
  for (CacheType type : all_types) {
    check(input_case(type, 3, 3, quick_dim(type), {5, 1, 17, 64, 65, 1, 1, 1, 3}, 64), 2e-6,
          type == CacheType::f16);
  }
  for (uint32_t length : {1, 7, 8, 9, 33})
    check(input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {length}, 64));
  Case c = input_case(CacheType::f32, 2, 2, quick_dim(CacheType::f32), {13, 30, 2}, 8,
                      3); // not a multiple of every kernel's block
  c.options.soft_cap = 5;
  c.capacity = 64;
  check(c, 4e-6, true);
}

TEST_CASE("attention: bidirectional, with a window on each side") {
  for (uint32_t window : {1, 2, 5, 9, 64, 200}) {
    Case c = input_case(CacheType::f16, 3, 3, 24, {5, 1, 17, 130, 65}, 64);
    c.options.window = window;
    check(c, 2e-6, true);
  }
}

TEST_CASE("attention: patches see those of their window") {
  for (CacheType type : all_types) {
    Case c = input_case(type, 3, 3, quick_dim(type), {40, 4, 150, 65}, 64);
    give_windows(c, {16, 16, 8, 64});
    check(c, 2e-6, type == CacheType::f16);
  }
  Case c = input_case(CacheType::f32, 3, 3, every_case() ? 80 : quick_dim(CacheType::f32), {200}, 8, 3);
  give_windows(c, {64, 1, 4});
  check(c, 2e-6);
}

TEST_CASE("attention: rows see their run, or the first rows of their input") {
  for (CacheType type : all_types) {
    Case c = input_case(type, 3, 3, quick_dim(type), {40, 4, 150, 65, 3}, 64);
    c.options.run = 4;
    check(c, 2e-6, type == CacheType::f16);
    c.options.run = 0;
    c.options.joined = 4;
    check(c, 2e-6, type == CacheType::f16);
  }
  Case c = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {200}, 8, 3);
  c.options.run = 9;
  check(c, 2e-6);
}

TEST_CASE("attention: each position of an input sees those before it") {
  for (CacheType type : all_types) {
    Case c = input_case(type, 3, 3, quick_dim(type), {5, 1, 17, 64, 65, 1, 1, 1, 3}, 64);
    c.options.mask = AttentionMask::causal_input;
    check(c, 2e-6, type == CacheType::f16);
  }
}

TEST_CASE("attention: an input has the same bits alone, in several steps and at another block") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t window : {0u, 12u}) {
      const uint32_t block =
          attention_block(profile, {CacheType::f32, 1, 1024, 3, quick_dim(CacheType::f32)});
      Case packed = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {33, 1, 9, 70, 2}, block);
      packed.options.window = window;
      const std::vector<float> all = run(profile, packed);
      size_t row = 0;
      uint32_t tag = 0;
      for (uint32_t length : {33u, 1u, 9u, 70u, 2u}) {
        for (uint32_t place : {0u, 3u}) {
          Case alone =
              input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {length}, block, place, tag);
          alone.options.window = window;
          INFO(packed.text(), " length ", length, " place ", place, " cpu8 ", profile.cpu8);
          CHECK(same_bits(run(profile, alone),
                          std::span(all).subspan(row * packed.stride(), length * packed.stride())));
        }
        row += length;
        ++tag;
      }
      check_rows_alone(profile, packed, {0, 31, 32, 33, 34, 42, 43, 110, 114});
    }
  }
}

TEST_CASE("attention: the block is the workgroup, which is larger for large heads") {
  DeviceProfile profile;
  CHECK(attention_block(profile, {CacheType::f16, 1, 32, 1, 64}) == 2 * profile.workgroup);
  CHECK(attention_block(profile, {CacheType::f32, 1, 32, 1, 512}) == 128);
  CHECK(attention_block(profile, {CacheType::f32, 1, 32, 1, 576}) == 256);
  profile.workgroup = 8;
  profile.cpu = true;
  CHECK(attention_block(profile, {CacheType::f16, 1, 32, 1, 64}) == 8);
}

TEST_CASE("attention: cross-attention to an encoder's inputs") {
  const std::vector<std::pair<uint32_t, uint32_t>> memories = {
      {64, 101}, {0, 1}, {128, 128}, {64, 101}, {192, 200}};
  // Five sequences, one of which sees nothing, and several rows of each.
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 5; ++i) rows.push_back({0, 300 * i, i, 0});
  for (uint32_t i = 0; i < 9; ++i) rows.push_back({0, i, i / 3, i});
  for (CacheType type : all_types) check(memory_case(type, 3, 3, quick_dim(type), rows, memories));
  check(memory_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), prefill(10, 0, 1), memories));
  for (bool one_sequence : both) {
    Case c = memory_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), rows, memories);
    c.one_sequence = one_sequence;
    check(c, 2e-6, !one_sequence || every_case());
    for (const DeviceProfile& profile : profiles_to_test()) {
      check_rows_alone(profile, c, {0, 1, 2, 3, 4, 5, 9, 13});
      const std::vector<float> result = run(profile, c);
      for (uint32_t i = 0; i < c.stride(); ++i) REQUIRE(result[2 * c.stride() + i] == 0.0f);
    }
  }
}

TEST_CASE("attention: each of several beams of one input has the bits of a beam alone") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    const Case c =
        memory_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32),
                    {{0, 7, 0}, {0, 7, 1}, {0, 7, 2}, {0, 7, 3}}, {{32, 77}, {32, 77}, {32, 77}, {32, 77}});
    check_rows_alone(profile, c, {0, 1, 2, 3});
  }
}

TEST_CASE("attention: buckets of distances as T5's own code has them") {
  // Where each bucket begins, by Hugging Face's relative_position_bucket.
  struct Expected {
    RelativeBias bias;
    std::vector<int64_t> first; // the least distance of each bucket
  };
  const Expected cases[] = {
      {{32, 128, true}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}},
      {{32, 128, false}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                          16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
      {{8, 20, true}, {0, 1, 2, 7}},
      {{8, 20, false}, {0, 1, 2, 3, 4, 6, 9, 14}},
      {{64, 256, true}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  12,  13,  14,  15,
                         16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}},
      {{128, 512, false},
       {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,  17,  18,
        19,  20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,  31,  32,  33,  34,  35,  36,  37,
        38,  39,  40,  41,  42,  43,  44,  45,  46,  47,  48,  49,  50,  51,  52,  53,  54,  55,  56,
        57,  58,  59,  60,  61,  62,  63,  64,  67,  69,  71,  73,  76,  78,  81,  83,  86,  89,  92,
        95,  98,  101, 105, 108, 112, 115, 119, 123, 127, 131, 136, 140, 145, 149, 154, 159, 165, 170,
        176, 182, 187, 194, 200, 207, 213, 220, 228, 235, 243, 251, 259, 268, 277, 286, 295, 305, 315,
        325, 336, 347, 359, 370, 383, 395, 408, 422, 436, 450, 465, 480, 496}},
  };
  for (const Expected& expected : cases) {
    const RelativeBias& bias = expected.bias;
    CAPTURE(bias.buckets);
    CAPTURE(bias.max_distance);
    const uint32_t side = bias.both_ways ? bias.buckets / 2 : bias.buckets;
    REQUIRE(expected.first.size() == side);
    uint32_t bucket = 0;
    for (int64_t distance = 0; distance < 1000; ++distance) {
      while (bucket + 1 < side && distance >= expected.first[bucket + 1]) ++bucket;
      CHECK(bias.bucket(-distance) == bucket);
      CHECK(bias.bucket(distance) == (bias.both_ways ? bucket + (distance > 0 ? side : 0) : 0));
    }
    CHECK(bias.bucket(-int64_t{1} << 40) == side - 1);
  }
}

// As transformers' make_log_bucket_position() has them, for 8 buckets on each side and 128 positions.
TEST_CASE("attention: buckets of distances as DeBERTa's own code has them") {
  const RelativeBias bias = {16, 128, false, false, true, true};
  for (const auto& [query_minus_key, bucket] : {std::pair<int64_t, uint32_t>{0, 8},
                                                {1, 9},
                                                {4, 12},
                                                {5, 13},
                                                {12, 13},
                                                {13, 14},
                                                {40, 14},
                                                {41, 15},
                                                {127, 15},
                                                {1000, 15},
                                                {-1, 7},
                                                {-4, 4},
                                                {-5, 3},
                                                {-12, 3},
                                                {-13, 2},
                                                {-40, 2},
                                                {-41, 1},
                                                {-127, 1},
                                                {-128, 0},
                                                {-1000, 0}}) {
    const int64_t distance = query_minus_key; // clang 14 captures no structured binding
    CAPTURE(distance);
    CHECK(bias.bucket(-distance) == bucket);
  }
  const RelativeBias clamped = {16, 8, false, false, true, false};
  for (const auto& [query_minus_key, bucket] :
       {std::pair<int64_t, uint32_t>{0, 8}, {7, 15}, {8, 15}, {100, 15}, {-8, 0}, {-9, 0}}) {
    CHECK(clamped.bucket(-query_minus_key) == bucket);
  }
}

TEST_CASE("attention: a bias by content") {
  const std::tuple<uint32_t, uint32_t, bool> biases[] = {{16, 128, true}, {14, 7, false}};
  for (const auto& [bias, type] : in_turn(biases, std::array{CacheType::f32, CacheType::f16})) {
    const auto [buckets, max_distance, rounded] = bias;
    Case c = input_case(type, 3, 3, quick_dim(type), {50, 1, 9, 70}, 128);
    give_content_bias(c, buckets, max_distance, rounded);
    check(c, 2e-6, true);
    for (const DeviceProfile& profile : profiles_to_test()) {
      const auto result = [&](const Case& of) {
        return run_all(profile, of, make_cache(of), make_queries(of), true).result;
      };
      Case alone = input_case(type, 3, 3, quick_dim(type), {70}, 128, 2, 3);
      give_content_bias(alone, buckets, max_distance, rounded);
      const std::vector<float> all = result(c);
      CHECK(same_bits(result(alone), std::span(all).subspan(60 * c.stride())));
    }
  }
}

TEST_CASE("attention: a bias by distance") {
  for (const auto& [buckets, max_distance] : {std::pair<uint32_t, uint32_t>{32, 128}, {8, 20}, {7, 5}}) {
    Case input = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {150, 1, 30}, 64);
    give_bias(input, true, buckets, max_distance);
    check(input, 2e-6, every_case());
    input.options.soft_cap = 3;
    input.one_sequence = every_case();
    check(input, 4e-6, true);
    Case past = make_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), prefill(33, 130));
    give_bias(past, false, buckets, max_distance);
    check(past);
  }
  for (CacheType type : {CacheType::f16, CacheType::q8_0}) {
    Case c = input_case(type, 3, 3, quick_dim(type), {50, 9}, 64);
    give_bias(c, true, 32, 128);
    check(c, 2e-6, true);
  }
  for (const DeviceProfile& profile : profiles_to_test()) {
    Case c = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {70, 1, 30}, 64);
    give_bias(c, true, 8, 20);
    check_rows_alone(profile, c, {0, 3, 69, 70, 71, 100});
    Case elsewhere = c;
    for (Row& row : elsewhere.rows) {
      for (uint32_t* at : {&row.position, &row.first, &row.end}) *at += 128;
    }
    elsewhere.layout.capacity += 128;
    CHECK(same_bits(run(profile, c), run(profile, elsewhere)));
  }
}

TEST_CASE("attention: the buckets of a bias by place") {
  RelativeBias bias;
  bias.patch_rows = 2;
  bias.patch_columns = 3;
  CHECK(bias.places() == 7);
  CHECK(bias.place_buckets() == 18);   // 3 offsets down, 5 across, and three with the class token
  CHECK(bias.place_bucket(1, 1) == 7); // no offset: the middle of the 15
  CHECK(bias.place_bucket(1, 6) == 0); // the key is one row down and two columns across
  CHECK(bias.place_bucket(6, 1) == 14);
  CHECK(bias.place_bucket(2, 1) == 8);
  CHECK(bias.place_bucket(0, 4) == 15);
  CHECK(bias.place_bucket(4, 0) == 16);
  CHECK(bias.place_bucket(0, 0) == 17);
}

// Each shape of patches; types, and whether scores are capped, take turns.
TEST_CASE("attention: a bias by place") {
  const std::pair<uint32_t, uint32_t> shapes[] = {{7, 7}, {5, 13}, {1, 1}, {1, 31}};
  for (const auto& [shape, type, capped] : in_turn(shapes, all_types, both)) {
    const uint32_t places = 1 + shape.first * shape.second;
    Case c = input_case(type, 3, 3, quick_dim(type), {places, places, places}, 64, 1);
    give_place_bias(c, shape.first, shape.second);
    if (capped) c.options.soft_cap = 3;
    check(c, capped ? 4e-6 : 2e-6, true);
  }
  for (const DeviceProfile& profile : profiles_to_test()) {
    Case c = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {50, 50}, 128);
    give_place_bias(c, 7, 7);
    check_rows_alone(profile, c, {0, 1, 49, 50, 99});
    const std::vector<float> all = run(profile, c);
    Case alone = input_case(CacheType::f32, 3, 3, quick_dim(CacheType::f32), {50}, 128, 2, 1);
    give_place_bias(alone, 7, 7);
    CHECK(same_bits(run(profile, alone), std::span(all).subspan(50 * c.stride())));
  }
}

TEST_CASE("attention: positions read from other sequences' caches give the bits of a copy") {
  struct Shape {
    std::vector<Row> rows;
    uint32_t window = 0;
  };
  const Shape shapes[] = {
      {{{0, 70, 0}, {0, 70, 1}, {0, 70, 2}, {0, 70, 3}}},
      {{{0, 0, 0}, {0, 0, 2}}},
      {{{0, 65, 3, 2}, {0, 3, 0}, {0, 8, 1, 9}}}, // the last sees nothing
      {{{0, 69, 1}, {0, 70, 1}, {0, 71, 1}, {0, 72, 1}, {0, 73, 1}}, 20},
  };
  for (CacheType type : all_types) {
    for (const Shape& shape : shapes) {
      Case c = make_case(type, 3, 3, quick_dim(type), shape.rows, shape.window);
      c.one_sequence = type == CacheType::f32;
      c.capacity = 5;
      share_earlier_positions(c, 4, 100);
      check(c, 2e-6, type == CacheType::f16);
      check_copied(c, type == CacheType::f16);
    }
  }
}

TEST_CASE("attention: a ring with cache indirection gives the bits of a copy") {
  Case c = make_case(CacheType::f16, 3, 3, 24, {{0, 130, 0}, {0, 130, 1}, {0, 130, 2}}, 20);
  share_earlier_positions(c, 3, 132);
  c.layout.window = 20;
  c.layout.capacity = 32;
  check_copied(c, false);
}

TEST_CASE("attention: cache indirection with a bias and capped scores") {
  Case c = make_case(CacheType::f16, 4, 4, 24, {{0, 40, 0, 0}, {0, 40, 1, 0}, {0, 40, 2, 0}});
  share_earlier_positions(c, 3, 64);
  give_bias(c, false, 8, 20);
  c.options.soft_cap = 6;
  check(c, 4e-6, true);
}

TEST_CASE("attention: pages of a pool in any order") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (CacheType type : all_types) {
      if (takes_long(profile, type)) continue;
      check_pages(profile, make_case(type, 4, 2, 24, {{0, 200, 1, 0}}, type == CacheType::f32 ? 0 : 90));
      if (type != CacheType::f32 && !every_case()) continue;
      Case together = make_case(type, 3, 3, quick_dim(type), prefill(9, 121, 0));
      for (const Row& row : prefill(3, 270, 2)) together.rows.push_back(row);
      together.rows.push_back({0, 5, 1, 0});
      together.layout.sequences = 3;
      together.layout.capacity = 288;
      check_pages(profile, together, true);
    }
    for (CacheType type : mixed_types) {
      if (every_case()) check_pages(profile, make_case(type, 2, 1, 24, {{0, 130, 1, 3}}));
    }
  }
}
