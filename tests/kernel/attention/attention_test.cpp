#include "kernel/attention/attention_case.h"
#include "tools/pumice/bench/timed_cases.h"

using namespace attention_case;

namespace {

constexpr CacheType exact_types[] = {CacheType::f32, CacheType::f16};

} // namespace

// Each way in which heads share keys, one row and several, each type, each kind of head size. A long run has
// each with each type, and more sizes.
TEST_CASE("attention: heads, head sizes and cache types") {
  const std::pair<uint32_t, uint32_t> heads[] = {{12, 4}, {4, 2}, {4, 4}, {4, 1}, {3, 1}, {7, 7}};
  for (const auto& [type, count, several] : in_turn(all_types, heads, both)) {
    check(several ? make_case(type, count.first, count.second, 20, prefill(9, 30))
                  : make_case(type, count.first, count.second, 32, prefill(1, 100)));
  }
  std::vector<uint32_t> dims = {1, 5, 18, 80, largest_head_dim};
  if (every_case()) dims.insert(dims.end(), {10, 24, 64, 96, 128, 256, 320});
  for (const auto& [dim, type] : in_turn(dims, all_types)) check(make_case(type, 1, 1, dim, prefill(1, 65)));
  if (every_case()) {
    for (uint32_t dim : dims) check(make_case(CacheType::f16, 3, 1, dim, prefill(2, 65)));
  }
  check(make_case(CacheType::f32, 7, 1, 32, prefill(3, 40))); // a group that is not divided evenly
}

// Each type, one row and several, a head size past what a workgroup's registers hold. A long run has each
// shape of heads in each type.
TEST_CASE("attention whose values are its keys") {
  struct Heads {
    uint32_t all, kv, dim;
  };
  std::vector<Heads> heads = {{4, 1, 40}, {2, 1, largest_head_dim}, {4, 2, 40}};
  if (every_case()) heads.insert(heads.end(), {{3, 1, 24}, {5, 1, 72}});
  for (const auto& [count, type, rows] : in_turn(heads, all_types, std::array{1u, 33u})) {
    Case c = make_case(type, count.all, count.kv, count.dim, prefill(rows, 65));
    c.layout.values_are_keys = true;
    check(c);
  }
}

TEST_CASE("attention: keys and values of two types") {
  size_t turn = 0;
  for (CacheType type : mixed_types) {
    const uint32_t dim = turn % 2 ? 40 : 64, rows = turn % 3 ? 1 : 9;
    check(make_case(type, 4, 2, dim, prefill(rows, 33)), 2e-6, turn++ < 3);
  }
  if (!every_case()) return;
  for (CacheType type : mixed_types) {
    for (uint32_t dim : {20, 64, 128}) check(make_case(type, 4, 2, dim, prefill(33, 100)), 2e-6, true);
  }
}

TEST_CASE("attention that is also timed" * doctest::test_suite("rest")) {
  std::vector<timed_cases::Attention> cases = timed_cases::attentions();
  std::erase_if(cases, [](const timed_cases::Attention& each) { return each.only_timed; });
  for (const timed_cases::Attention& each : turns_of(cases, 5)) { // three of each type
    check(make_case(each.type, each.heads, each.kv_heads, each.head_dim, prefill(each.rows, each.position)));
  }
}

TEST_CASE("attention: positions of a single token") {
  for (CacheType type : all_types) {
    for (uint32_t position : {0, 1, 7, 8, 31, 32, 33, 63, 64, 100, 500}) {
      check(make_case(type, 2, 2, 32, prefill(1, position)));
    }
  }
}

// As many tokens in a workgroup as there are for it, in each of these types.
TEST_CASE("attention: several tokens at once") {
  for (const auto& [type, count] : in_turn(exact_types, std::array{1u, 33u, 2u, 8u, 7u, 9u})) {
    for (uint32_t position : {0, 5, 31, 120}) {
      Case c = make_case(type, 2, 2, 32, prefill(count, position));
      c.one_sequence = true;
      check(c);
    }
    check(make_case(CacheType::f32, 3, 1, 32, prefill(count, 62)));
  }
}

TEST_CASE("attention: padding on the left, and rows that see nothing") {
  for (CacheType type : exact_types) {
    for (uint32_t first : {1, 7, 8, 30, 31, 40, 63}) {
      check(make_case(type, 2, 2, 32, prefill(1, 63, 0, first)));
      check(make_case(type, 2, 2, 32, prefill(33, 31, 0, first))); // the first rows may see nothing
    }
  }
  Case blind = make_case(CacheType::f16, 2, 2, 32, prefill(3, 4, 0, 20));
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (float value : run(profile, blind)) REQUIRE(value == 0.0f);
  }
}

TEST_CASE("attention: sliding windows") {
  for (CacheType type : all_types) {
    for (uint32_t window : {1, 7, 32, 100}) {
      check(make_case(type, 2, 2, 32, prefill(1, 0), window));
      check(make_case(type, 2, 2, 32, prefill(1, 130), window));
      check(make_case(type, 2, 2, 32, prefill(33, 0), window));
      check(make_case(type, 2, 2, 32, prefill(33, 90, 0, 70), window));
    }
  }
}

namespace {

// The case with a ring of `capacity` positions in place of the whole cache.
Case in_ring(Case c, uint32_t capacity) {
  c.layout.capacity = capacity;
  c.layout.window = c.options.window;
  return c;
}

} // namespace

TEST_CASE("attention: a ring holds what the window sees, and gives the whole cache's bits" *
          doctest::test_suite("rest")) {
  for (CacheType type : all_types) {
    const Case cases[] = {
        in_ring(make_case(type, 2, 2, 32, prefill(1, 3), 7), 32),
        in_ring(make_case(type, 2, 2, 32, prefill(1, 31), 7), 32),
        in_ring(make_case(type, 2, 2, 32, prefill(1, 34), 7), 32), // across the ring's end
        in_ring(make_case(type, 2, 2, 32, prefill(1, 1000), 7), 32),
        in_ring(make_case(type, 2, 2, 32, prefill(1, 1001), 1), 32),
        in_ring(make_case(type, 2, 2, 32, prefill(1, 130), 32), 32), // all of the ring
        in_ring(make_case(type, 2, 2, 32, prefill(33, 90), 20), 64), // a chunk across it
        in_ring(make_case(type, 2, 2, 32, prefill(33, 95, 0, 100), 32), 64),
        in_ring(make_case(type, 2, 2, 32,
                          {{0, 40, 0, 0}, {0, 3, 2, 0}, {0, 77, 1, 72}, {0, 41, 0, 0}, {0, 205, 3, 0}}, 9),
                32),
    };
    for (const Case& c : cases) {
      check(c);
      Case whole = c;
      whole.layout.window = 0;
      whole.layout.capacity = padded(c.positions());
      for (const DeviceProfile& profile : profiles_to_test()) {
        INFO(c.text());
        CHECK(same_bits(run(profile, c), run(profile, whole)));
      }
    }
  }
}

TEST_CASE("attention: chunks, whole and in a ring" * doctest::test_suite("rest")) {
  for (CacheType type : all_types) {
    for (uint32_t chunk : {1, 7, 32, 100}) {
      for (const Case& plain : {make_case(type, 2, 2, quick_dim(type), prefill(1, 130), chunk),
                                make_case(type, 2, 2, quick_dim(type), prefill(33, 0), chunk),
                                make_case(type, 2, 2, quick_dim(type), prefill(33, 90, 0, 70), chunk)}) {
        Case c = plain;
        c.options.chunked = true;
        check(c, 2e-6, true);
        check(in_ring(c, 136), 2e-6, true);
      }
    }
  }
}

TEST_CASE("attention: a picture's rows see all of it" * doctest::test_suite("rest")) {
  for (CacheType type : all_types) {
    for (uint32_t window : {0u, 20u, 64u}) {
      for (const uint32_t length : {1u, 7u, 19u}) {
        Case c = make_case(type, 2, 2, quick_dim(type), prefill(47, 60), window);
        c.options.whole_pictures = true;
        for (uint32_t first : {3u, 25u}) { // two pictures, text before, between and after them
          for (uint32_t i = first; i < first + length; ++i) {
            c.rows[i].token = PROMPT_ROW | i;
            c.rows[i].end = c.rows[first].position + length;
          }
        }
        // What an earlier step has left of another text means nothing for a row that is no picture's.
        c.rows[46].end = c.rows[0].end = 4000;
        check(c, 2e-6, true);
        if (window == 20) check(in_ring(c, 72), 2e-6, true);
      }
    }
  }
}

// Each kind of rows in each type, capped and not; a long run has heads of several sizes too.
TEST_CASE("attention: sinks") {
  for (const auto& [type, capped] : in_turn(all_types, std::array{false, true, false})) {
    const std::pair<uint32_t, uint32_t> shapes[] = {{2, quick_dim(type)}, {6, 32}};
    for (const auto& [heads, dim] : turns_of(shapes, 2)) {
      for (const Case& plain :
           {make_case(type, heads, 2, dim, prefill(1, 300)), make_case(type, heads, 2, dim, prefill(1, 0)),
            make_case(type, heads, 2, dim, prefill(33, 90, 0, 70), 9),
            make_case(type, heads, 2, dim, prefill(4, 4, 0, 5))}) { // the first row sees nothing
        Case c = plain;
        c.options.sinks = random_floats(c.options.heads, 78, 4);
        c.options.sinks[0] = 60;
        if (capped) c.options.soft_cap = 5;
        check(c, 4e-6, true);
      }
    }
  }
}

TEST_CASE("attention: capped scores") {
  for (CacheType type : all_types) {
    for (double cap : {0.3, 5.0, 50.0}) {
      for (float size : {0.01f, 3.0f, 100.0f}) {
        Case c = make_case(type, 2, 2, quick_dim(type), prefill(5, 60));
        c.options.soft_cap = cap;
        c.key_size = size;
        check(c, cap * 2e-7 + 2e-6);
      }
    }
  }
}

// Each type of one shape of heads, and other shapes in turn.
TEST_CASE("attention: the weights of attention_weights()" * doctest::test_suite("rest")) {
  for (CacheType type : all_types) {
    check(make_case(type, 2, 2, quick_dim(type), prefill(1, 70)), 2e-6, true);
    check(in_ring(make_case(type, 2, 2, quick_dim(type), prefill(33, 90), 20), 64), 2e-6, true);
  }
  for (const auto& [dim, type] : in_turn(std::array{5u, 24u}, all_types)) {
    check(make_case(type, 3, 3, dim, prefill(9, 30, 0, 33)), 2e-6, true); // the first rows see nothing
    Case c = make_case(type, every_case() ? 6 : 2, 2, dim,
                       {{0, 40, 0, 0}, {0, 3, 2, 0}, {0, 77, 1, 9}, {0, 41, 0, 0}});
    c.options.soft_cap = 20;
    c.capacity = 7;
    check(c, 6e-6, true);
  }
}

TEST_CASE("attention: numbers of few bits bring errors that are small") {
  constexpr std::pair<CacheType, double> types[] = {{CacheType::q8_0, 1e-2}, {CacheType::q4_0, 0.15}};
  Case c = make_case(CacheType::f32, 2, 2, 32, prefill(9, 200));
  c.one_sequence = false;
  const Cache exact = make_cache(c);
  const std::vector<float> q = make_queries(c);
  std::vector<float> expected;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto one =
        attention_reference::attend(exact, c.options, c.rows[row], q.data() + row * c.columns()).result;
    expected.insert(expected.end(), one.begin(), one.end());
  }
  for (const auto& [type, bound] : types) {
    c.layout.type = type;
    const Cache cache = make_cache(c);
    for (const DeviceProfile& profile : profiles_to_test()) {
      const auto actual = without_padding(c, run(profile, c, cache, q), c.columns());
      CHECK(relative_rms(actual, expected) <= bound);
    }
  }
}

TEST_CASE("attention: rows of several sequences, with and without one_sequence") {
  for (CacheType type : all_types) {
    check(make_case(type, 2, 2, 32, prefill(5, 20, 2)));
    for (bool one_sequence : both) {
      if (one_sequence && type != CacheType::f32 && !every_case()) continue; // see make_case()
      Case c =
          make_case(type, 3, 3, 32,
                    {{0, 40, 0, 0}, {0, 3, 2, 0}, {0, 77, 1, 9}, {0, 41, 0, 0}, {0, 5, 2, 6}, {0, 4, 2, 0}});
      c.one_sequence = one_sequence;
      check(c);
    }
  }
}

TEST_CASE("attention: a view of queries, and rows beyond the count") {
  for (uint32_t first : {8, 40, 64}) {
    Case c = make_case(CacheType::f16, 4, 2, 20, prefill(5, 10));
    c.capacity = 11;
    c.q_first = first;
    check(c);
  }
}

TEST_CASE("attention: huge scores stay finite") {
  for (CacheType type : all_types) {
    for (float size : {1e4f, type == CacheType::f32 ? 1e30f : 6e4f}) {
      Case c = make_case(type, 2, 2, 32, prefill(9, 60));
      c.key_size = size;
      Cache cache = make_cache(c);
      if (type != CacheType::f32) {
        for (float& key : cache.keys) key = std::isnan(key) ? key : std::clamp(key, -65504.0f, 65504.0f);
      }
      std::vector<float> q = make_queries(c);
      if (type == CacheType::f32 && size > 1e20f) {
        for (float& value : q) value *= 1e10f; // the products overflow
      }
      for (const DeviceProfile& profile : profiles_to_test()) {
        for (float value : without_padding(c, run(profile, c, cache, q), c.columns()))
          REQUIRE(std::isfinite(value));
      }
    }
  }
}

TEST_CASE("attention: large scores") {
  // Scores of hundreds: nearly all the weight on one position, where rounding of a score counts most.
  Case c = make_case(CacheType::f32, 2, 2, 32, prefill(9, 60));
  c.key_size = 300;
  check(c, 1e-4);
}

TEST_CASE("attention: a token's bits do not depend on its neighbours") {
  const std::pair<uint32_t, uint32_t> heads[] = {{4, 4}, {12, 4}, {4, 1}};
  for (const auto& [count, type] : in_turn(heads, std::array{CacheType::f16, CacheType::f32})) {
    for (uint32_t window : {0, 20}) {
      for (const DeviceProfile& profile : profiles_to_test()) {
        Case together = make_case(type, count.first, count.second, 32, prefill(33, 29, 0, 3), window);
        together.one_sequence = true;
        const std::vector<float> all = run(profile, together);
        const size_t stride = together.stride();
        for (uint32_t row : {0, 1, 2, 3, 17, 32}) {
          Case alone = together;
          alone.rows = {together.rows[row]};
          const std::vector<float> one = run(profile, alone);
          INFO(together.text(), " row ", row, " cpu8 ", profile.cpu8, " uniform ", profile.uniform_loads);
          CHECK(same_bits(one, std::span(all).subspan(row * stride, stride)));
        }
      }
    }
  }
}

TEST_CASE("attention: infinities that a row must not see do not reach it") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Case c = make_case(CacheType::f32, 4, 4, 32, prefill(8, 40));
    Cache cache = make_cache(c);
    const std::vector<float> q = make_queries(c);
    const std::vector<float> before = run(profile, c, cache, q);
    for (uint32_t head = 0; head < 4; ++head) {
      cache.values[cache.at(0, head, 43)] = INFINITY; // seen by the rows from position 43 on
      cache.keys[cache.at(0, head, 43)] = INFINITY;
    }
    const std::vector<float> after = run(profile, c, cache, q);
    CHECK(same_bits(std::span(before).first(3 * c.stride()), std::span(after).first(3 * c.stride())));
  }
}
