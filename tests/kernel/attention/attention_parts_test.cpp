#include "kernel/attention/attention_case.h"

// A cache in parts, because a kernel cannot reach all of it at once: the same bits as of a whole one.

using namespace attention_case;

namespace {

Case divided(Case c, CacheSplit split, uint32_t size) {
  c.layout.split = split;
  c.layout.part_size = size;
  return c;
}

// A case of `capacity` positions in parts of `part` positions.
Case by_positions(Case c, uint32_t capacity = 1024, uint32_t part = 256) {
  c.layout.capacity = capacity;
  return divided(std::move(c), CacheSplit::positions, part);
}

void check_parts(const Case& c, const DeviceProfile& profile, bool weights = false) {
  INFO(c.text(), " part ", c.layout.part_size, " cpu8 ", profile.cpu8, " forced ", profile.forced);
  Case plain = c;
  plain.layout.split = CacheSplit::whole;
  const Cache cache = make_cache(plain);
  const std::vector<float> q = make_queries(plain);
  const Ran whole = run_all(profile, plain, cache, q, weights);
  const Ran parts = run_all(profile, c, cache, q, weights);
  CHECK(parts.dispatches > whole.dispatches);
  const bool many = c.step_rows() >= 16 && c.one_sequence && !weights;
  if (profile.forced == "cm") CHECK(whole.kernel.starts_with("attention.cm.") == many);
  CHECK(same_bits(parts.result, whole.result));
  CHECK(same_bits(parts.weights, whole.weights));
  for (float value : without_padding(c, whole.result, c.columns())) REQUIRE(std::isfinite(value));
}

// All profiles, and positions split among workgroups. Each compiles four kernels for a case: the whole
// cache's, and those of its first, middle and last parts. So a short run takes them and the types in turn.
std::vector<DeviceProfile> ways() {
  std::vector<DeviceProfile> found = profiles_to_test();
  found.emplace_back();
  found.back().forced = "split-kv";
  DeviceProfile matrices = forced_profile("cm");
  matrices.matrix_shapes = TestGpu::get().profile.matrix_shapes;
  if (!matrices.matrix_shapes.empty()) found.push_back(matrices);
  return found;
}

const std::vector<Row> mixed_rows = {{0, 700, 0, 0},    {0, 3, 2, 0},  {0, 600, 1, 590}, {0, 701, 0, 300},
                                     {0, 1023, 2, 255}, {0, 4, 1, 20}, {0, 256, 1, 0}};

} // namespace

TEST_CASE("attention parts: one row at and around the ends of its parts") {
  for (const auto& [type, way] : in_turn(all_types, ways())) {
    for (uint32_t position : {0, 254, 255, 256, 511, 512, 1000, 1023}) {
      for (uint32_t part : {256, 512})
        check_parts(by_positions(make_case(type, 2, 2, 32, prefill(1, position)), 1024, part), way);
    }
  }
  struct Heads {
    uint32_t all, dim;
  };
  const Heads heads[] = {{3, 20}, {1, 96}, {1, 256}};
  for (const auto& [count, way, type] :
       in_turn(turns_of(heads, 3), turns_of(ways(), 3), turns_of(all_types, 3)))
    check_parts(by_positions(make_case(type, count.all, 1, count.dim, prefill(1, 700))), way);
}

TEST_CASE("attention parts: a chunk that lies in two parts") {
  for (const auto& [type, way] : in_turn(all_types, ways())) {
    for (uint32_t rows : {2, 7, 33}) {
      Case c = by_positions(make_case(type, 2, 2, quick_dim(type), prefill(rows, 500)));
      c.capacity = 33;
      check_parts(c, way);
    }
    if (every_case()) check_parts(by_positions(make_case(type, 3, 1, 72, prefill(17, 505))), way);
  }
}

TEST_CASE("attention parts: several sequences, padding, caps, biases, sinks and sums") {
  Case padded = by_positions(make_case(CacheType::f32, 2, 2, 32, mixed_rows));
  padded.capacity = 9;
  Case capped = padded, sinks = padded;
  capped.options.soft_cap = 5;
  give_bias(capped, false, 8, 20);
  sinks.capacity = 0;
  sinks.options.sinks = random_floats(2, 79, 4);
  const CacheType types[] = {CacheType::q8_0, CacheType::f32, CacheType::f16};
  for (const auto& [kind, way, type] : in_turn(std::array{padded, capped, sinks}, ways(), types)) {
    Case c = kind;
    c.layout.type = type;
    c.one_sequence = every_case() || type == CacheType::f32;
    check_parts(c, way, c.options.sinks.empty());
  }
}

TEST_CASE("attention parts: windows and chunks in a cache that is no ring") {
  for (const auto& [type, way, chunked] : in_turn(all_types, ways(), std::array{true, false, true})) {
    for (uint32_t window : {1, 100, 300, 1000}) {
      Case c = by_positions(make_case(type, 2, 2, 32, mixed_rows, window));
      c.options.chunked = chunked;
      if (!every_case()) c.one_sequence = false;
      check_parts(c, way);
    }
  }
}

TEST_CASE("attention parts: keys that are the values too") {
  for (const auto& [way, type] : in_turn(ways(), all_types)) {
    Case c = by_positions(make_case(type, every_case() ? 8 : 1, 1, 72, mixed_rows));
    c.layout.values_are_keys = true;
    if (!every_case()) c.one_sequence = false;
    check_parts(c, way);
  }
}

TEST_CASE("attention parts: beams that share earlier positions") {
  const CacheType types[] = {CacheType::f16, CacheType::f32, CacheType::q8_0};
  for (const auto& [way, type] : in_turn(ways(), types)) {
    Case c = make_case(type, 2, 2, 32, {{0, 600, 0, 0}, {0, 601, 1, 0}, {0, 30, 2, 0}});
    c = by_positions(std::move(c));
    share_earlier_positions(c, 3, 608);
    check_parts(c, way);
  }
}

TEST_CASE("attention parts: some sequences in each part, in rings too") {
  Case padded = make_case(CacheType::f32, 2, 2, 32, mixed_rows);
  padded.layout.capacity = 1024;
  padded.capacity = 9;
  Case ring = make_case(CacheType::f32, 2, 2, 32, {{0, 5000, 2, 0}, {0, 3, 0, 0}, {0, 350, 1, 0}}, 290);
  ring.layout.capacity = 320;
  ring.layout.window = 290;
  ring.options.sinks = random_floats(2, 79, 4);
  Case latent = make_case(CacheType::f32, every_case() ? 4 : 1, 1, 40, mixed_rows);
  latent.layout.values_are_keys = true;
  latent.one_sequence = false;
  const CacheType types[] = {CacheType::f32, CacheType::q8_0, CacheType::f16};
  for (const auto& [kind, way, type] : in_turn(std::array{padded, ring, latent}, ways(), types)) {
    Case c = kind;
    c.layout.type = type;
    c.one_sequence = c.one_sequence && (every_case() || type == CacheType::f32);
    for (uint32_t part : {1, 2}) check_parts(divided(c, CacheSplit::sequences, part), way, c.capacity == 9);
  }
}

TEST_CASE("what is stored in parts is what is stored in a whole cache") {
  TestGpu& gpu = TestGpu::get();
  std::vector<StepRow> rows;
  for (const Row& row : mixed_rows) rows.push_back({0, row.position, row.sequence, 0});
  for (const DeviceProfile& profile : profiles_to_test()) {
    auto cases = in_turn(all_types, both);
    cases.push_back({CacheType::f16_q8_0, false});
    for (const auto& [type, values_are_keys] : cases) {
      CacheLayout layout{type, 3, 1024, 2, 40};
      layout.values_are_keys = values_are_keys;
      CacheLayout positions = layout, sequences = layout;
      positions.split = CacheSplit::positions;
      positions.part_size = 256;
      sequences.split = CacheSplit::sequences;
      sequences.part_size = 2;
      const std::vector<uint8_t> before = cache_reference::unwritten(layout, Side::keys),
                                 before_values = cache_reference::unwritten(layout, Side::values);
      RotaryStoreArgs args;
      args.heads = 3;
      args.head_dim = 40;
      const auto upload = [&](uint32_t heads, uint32_t seed) {
        const uint32_t columns = heads * 40, stride = padded(columns);
        return ActivationRef{gpu.upload(random_floats(size_t{stride} * rows.size(), seed)),
                             static_cast<uint32_t>(rows.size()), 0, columns, stride};
      };
      args.q = upload(3, 1);
      args.k = upload(2, 2);
      args.v = values_are_keys ? args.k : upload(2, 3);
      args.step = gpu.step(rows, {}, static_cast<uint32_t>(rows.size()));
      std::vector<std::vector<uint8_t>> results;
      const auto run = [&](const CacheLayout& own) {
        args.cache = upload_cache(own, before, before_values);
        args.result = upload(3, 4);
        const Graph graph;
        TestLowering lowering(profile, graph, args.step);
        emit_rotary_store(lowering, args);
        gpu.run(lowering.dispatches());
        results.push_back(gpu.read<uint8_t>(args.result.buffer));
      };
      run(layout);
      const std::vector<uint8_t> keys = gpu.read<uint8_t>(args.cache.keys),
                                 values = gpu.read<uint8_t>(args.cache.values);
      CHECK(keys != before);
      for (const CacheLayout& own : {positions, sequences}) {
        run(own);
        CHECK(results.back() == results.front());
        for (uint32_t i = 0; i < own.parts(); ++i) {
          const CachePlace place = args.cache.place(i);
          CHECK(gpu.read<uint8_t>(place.keys) == cache_reference::part_of(own, Side::keys, i, keys));
          CHECK(gpu.read<uint8_t>(place.values) ==
                cache_reference::part_of(own, values_are_keys ? Side::keys : Side::values, i, values));
        }
      }
      gpu.clear();
    }
  }
}
