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

void check_parts(const Case& c, const DeviceProfile& profile, bool weights) {
  INFO(c.text(), " part ", c.layout.part_size, " cpu8 ", profile.cpu8, " forced ", profile.forced);
  Case plain = c;
  plain.layout.split = CacheSplit::whole;
  const Cache cache = make_cache(plain);
  const std::vector<float> q = make_queries(plain);
  const Ran whole = run_all(profile, plain, cache, q, weights);
  const Ran parts = run_all(profile, c, cache, q, weights);
  CHECK(parts.dispatches > whole.dispatches);
  const bool many = c.rows.size() >= 16 && c.one_sequence && !weights;
  if (profile.forced == "cm") CHECK(whole.kernel.starts_with("attention.cm.") == many);
  CHECK(same_bits(parts.result, whole.result));
  CHECK(same_bits(parts.weights, whole.weights));
  for (float value : without_padding(c, whole.result, c.columns())) REQUIRE(std::isfinite(value));
}

// In all profiles, and with positions split among workgroups.
void check_parts(const Case& c, bool weights = false) {
  for (const DeviceProfile& profile : profiles_to_test()) check_parts(c, profile, weights);
  DeviceProfile split;
  split.forced = "split-kv";
  check_parts(c, split, weights);
  DeviceProfile matrices = forced_profile("cm");
  matrices.matrix_shapes = TestGpu::get().profile.matrix_shapes;
  if (!matrices.matrix_shapes.empty()) check_parts(c, matrices, weights);
}

const std::vector<Row> mixed_rows = {{0, 700, 0, 0},    {0, 3, 2, 0},  {0, 600, 1, 590}, {0, 701, 0, 300},
                                     {0, 1023, 2, 255}, {0, 4, 1, 20}, {0, 256, 1, 0}};

} // namespace

TEST_CASE("attention parts: one row at and around the ends of its parts") {
  for (CacheType type : all_types) {
    for (uint32_t position : {0, 254, 255, 256, 511, 512, 1000, 1023}) {
      check_parts(by_positions(make_case(type, 6, 2, 32, prefill(1, position))));
      check_parts(by_positions(make_case(type, 6, 2, 32, prefill(1, position)), 1024, 512));
    }
  }
  check_parts(by_positions(make_case(CacheType::f16, 5, 1, 20, prefill(1, 700))));
  check_parts(by_positions(make_case(CacheType::f32, 1, 1, 96, prefill(1, 700))));
  check_parts(by_positions(make_case(CacheType::f32, 1, 1, 256, prefill(1, 700))));
}

TEST_CASE("attention parts: a chunk that lies in two parts") {
  for (CacheType type : all_types) {
    for (uint32_t rows : {2, 7, 33}) check_parts(by_positions(make_case(type, 4, 2, 32, prefill(rows, 500))));
    check_parts(by_positions(make_case(type, 3, 1, 72, prefill(17, 505))));
  }
}

TEST_CASE("attention parts: several sequences, padding, caps, biases, sinks and sums") {
  for (CacheType type : all_types) {
    Case c = by_positions(make_case(type, 4, 2, 32, mixed_rows));
    c.capacity = 9;
    check_parts(c, true);
    c.options.soft_cap = 5;
    give_bias(c, false, 8, 20);
    check_parts(c, true);
    Case sinks = by_positions(make_case(type, 4, 2, 32, mixed_rows));
    sinks.options.sinks = random_floats(4, 79, 4);
    check_parts(sinks);
  }
}

TEST_CASE("attention parts: windows and chunks in a cache that is no ring") {
  for (CacheType type : all_types) {
    for (uint32_t window : {1, 100, 300, 1000}) {
      Case c = by_positions(make_case(type, 4, 2, 32, mixed_rows, window));
      check_parts(c);
      c.options.chunked = true;
      check_parts(c);
    }
  }
}

TEST_CASE("attention parts: keys that are the values too") {
  for (CacheType type : all_types) {
    Case c = by_positions(make_case(type, 8, 1, 72, mixed_rows));
    c.layout.values_are_keys = true;
    check_parts(c);
  }
}

TEST_CASE("attention parts: beams that share earlier positions") {
  for (CacheType type : all_types) {
    Case c = make_case(type, 4, 2, 32, {{0, 600, 0, 0}, {0, 601, 1, 0}, {0, 30, 2, 0}});
    c = by_positions(std::move(c));
    share_earlier_positions(c, 3, 608);
    check_parts(c);
  }
}

TEST_CASE("attention parts: some sequences in each part, in rings too") {
  for (CacheType type : all_types) {
    for (uint32_t part : {1, 2}) {
      Case c = make_case(type, 4, 2, 32, mixed_rows);
      c.layout.capacity = 1024;
      c.capacity = 9;
      check_parts(divided(c, CacheSplit::sequences, part), true);
      Case ring = make_case(type, 4, 2, 32, {{0, 5000, 2, 0}, {0, 3, 0, 0}, {0, 350, 1, 0}}, 290);
      ring.layout.capacity = 320;
      ring.layout.window = 290;
      ring.options.sinks = random_floats(4, 79, 4);
      check_parts(divided(ring, CacheSplit::sequences, part));
      Case latent = make_case(type, 4, 1, 40, mixed_rows);
      latent.layout.values_are_keys = true;
      latent.one_sequence = false;
      check_parts(divided(latent, CacheSplit::sequences, part));
    }
  }
}

TEST_CASE("what is stored in parts is what is stored in a whole cache") {
  TestGpu& gpu = TestGpu::get();
  std::vector<StepRow> rows;
  for (const Row& row : mixed_rows) rows.push_back({0, row.position, row.sequence, 0});
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (CacheType type : all_types) {
      for (const bool values_are_keys : {false, true}) {
        CacheLayout layout{type, 3, 1024, 2, 40};
        layout.values_are_keys = values_are_keys;
        CacheLayout positions = layout, sequences = layout;
        positions.split = CacheSplit::positions;
        positions.part_size = 256;
        sequences.split = CacheSplit::sequences;
        sequences.part_size = 2;
        const std::vector<uint8_t> before = cache_reference::unwritten(layout);
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
          args.cache = upload_cache(own, before, before);
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
            CHECK(gpu.read<uint8_t>(place.keys) == cache_reference::part_of(own, i, keys));
            CHECK(gpu.read<uint8_t>(place.values) == cache_reference::part_of(own, i, values));
          }
        }
        gpu.clear();
      }
    }
  }
}
