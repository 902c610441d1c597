#include "kernel/attention/attention_case.h"

// Attention whose positions are divided among workgroups.

using namespace attention_case;

namespace {

DeviceProfile forced(const std::string& variant) {
  DeviceProfile profile;
  profile.forced = variant;
  return profile;
}

// Whether the last workgroup of a row's heads may add up the spans: it needs the buffers of what else there
// may be.
bool last_may_add_up(const Case& c, bool weights) {
  return !weights && c.options.bias.buckets == 0 && !c.options.chosen;
}

void check_zeros(const Ran& ran) {
  CHECK(!ran.counters.empty());
  CHECK(std::ranges::count(ran.counters, 0u) == static_cast<ptrdiff_t>(ran.counters.size()));
}

// What the whole attention gives, to the bit, and what it should. `parts`: how often the rows are divided so
// that their sums fit `range_bytes`.
void check_split(const Case& c, double bound = 2e-6, bool weights = false, size_t parts = 1,
                 uint64_t range_bytes = DeviceProfile().range_bytes) {
  INFO(c.text());
  const Cache cache = make_cache(c);
  const std::vector<float> q = make_queries(c);
  DeviceProfile profile = forced("split-kv");
  profile.range_bytes = range_bytes;
  const Ran split = run_all(profile, c, cache, q, weights);
  const Ran whole = run_all(forced("portable"), c, cache, q, weights);
  CHECK(split.dispatches == (last_may_add_up(c, weights) ? 1 : 2) * parts);
  if (last_may_add_up(c, weights)) check_zeros(split);
  CHECK(whole.dispatches == 1);
  CHECK(same_bits(split.result, whole.result));
  CHECK(same_bits(split.weights, whole.weights));
  std::vector<float> expected;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto one = attend(cache, c.options, c.rows[row], q.data() + row * c.columns());
    expected.insert(expected.end(), one.result.begin(), one.result.end());
  }
  CHECK(relative_rms(without_padding(c, split.result, c.columns()), expected) <= bound);
}

} // namespace

TEST_CASE("attention split: one row at and around the ends of its spans") {
  for (CacheType type : all_types) {
    for (uint32_t position : {0, 200, 255, 256, 511, 512, 1000}) {
      Case c = make_case(type, 2, 2, 32, prefill(1, position));
      c.layout.capacity = 1024;
      check_split(c);
    }
  }
  check_split(make_case(CacheType::f32, 5, 1, 20, prefill(1, 300)));
  check_split(make_case(CacheType::f32, 1, 1, 96, prefill(1, 300)));
  check_split(make_case(CacheType::f16_q8_0, 2, 2, 40, prefill(1, 300)));
  check_split(make_case(CacheType::q8_0_f16, 2, 1, 64, prefill(1, 300)), 2e-6, true);
}

TEST_CASE("attention split: several rows, padding, caps, biases and sums") {
  for (CacheType type : all_types) {
    Case c = make_case(type, 2, 2, quick_dim(type),
                       {{0, 700, 0, 0}, {0, 3, 2, 0}, {0, 600, 1, 590}, {0, 701, 0, 300}, {0, 4, 1, 20}});
    c.capacity = 7;
    check_split(c, 2e-6, true);
    c.options.soft_cap = 5;
    c.options.bias = {8, 20, false};
    c.options.bias_table = random_floats(8 * 2, 77, 2);
    check_split(c, 4e-6);
  }
}

TEST_CASE("attention split: rows whose sums pass what a binding reaches") {
  for (CacheType type : all_types) {
    Case c = make_case(type, 2, 2, quick_dim(type),
                       {{0, 700, 0, 0}, {0, 3, 2, 0}, {0, 600, 1, 590}, {0, 701, 0, 300}, {0, 4, 1, 20}});
    c.capacity = 7;
    const uint64_t spans = (c.layout.capacity + 127) / 128,
                   row_bytes = c.options.heads * spans * (c.layout.head_dim + 2) * 4;
    check_split(c, 2e-6, true, 7, row_bytes);
    check_split(c, 2e-6, true, 4, row_bytes * 3 - 1); // 2, 2, 2 and 1
    check_split(c, 2e-6, true, 2, row_bytes * 6);     // 4 and 3
    check_split(c, 2e-6, true, 1, row_bytes * 7);
  }
}

TEST_CASE("attention split: windows and rings") {
  for (CacheType type : all_types) {
    for (uint32_t position : {3, 300, 767, 768, 5000}) {
      Case c = make_case(type, 2, 2, quick_dim(type), prefill(1, position), 290);
      c.layout.capacity = 320;
      c.layout.window = 290;
      check_split(c);
      if (position == 767) check_split(c, 2e-6, true);
    }
  }
}

TEST_CASE("attention split: chunks and sinks") {
  for (CacheType type : all_types) {
    for (uint32_t position : {3, 300, 767, 768, 5000}) {
      Case c = make_case(type, 2, 2, quick_dim(type), prefill(1, position), 290);
      c.layout.capacity = 320;
      c.layout.window = 290;
      c.options.chunked = true;
      c.options.sinks = random_floats(2, 79, 4);
      check_split(c);
      if (position == 767) check_split(c, 2e-6, true);
    }
  }
}

// Rows of different numbers of spans, of which one has none, and heads that do not fill their workgroups.
TEST_CASE("attention split: launches one after the other leave the counters as they were") {
  for (CacheType type : turns_of(all_types, 3)) {
    Case c = make_case(type, 5, 1, quick_dim(type),
                       {{0, 700, 0, 0}, {0, 3, 2, 0}, {0, 30, 1, 40}, {0, 701, 0, 300}, {0, 520, 1, 20}});
    c.capacity = 7;
    INFO(c.text());
    const Cache cache = make_cache(c);
    const std::vector<float> q = make_queries(c);
    const Ran whole = run_all(forced("portable"), c, cache, q, false);
    for (size_t times : {1, 3}) {
      const Ran split = run_all(forced("split-kv"), c, cache, q, false, times);
      CHECK(split.dispatches == 1);
      check_zeros(split);
      CHECK(same_bits(split.result, whole.result));
    }
    const Ran apart = run_all(forced("split-kv"), c, cache, q, true);
    CHECK(apart.dispatches == 2);
    CHECK(same_bits(apart.result, whole.result));
  }
}

// Each row has a counter for each workgroup of its heads.
TEST_CASE("attention split: more workgroups than there are counters leave the sums to a launch") {
  Case c = make_case(CacheType::f32, 2, 2, 160, prefill(1, 300));
  for (uint32_t rows : {StepLayout::counters / 2, StepLayout::counters / 2 + 1}) {
    c.capacity = rows;
    const Ran split = run_all(forced("split-kv"), c, make_cache(c), make_queries(c), false);
    CHECK(split.dispatches == (rows > StepLayout::counters / 2 ? 2 : 1));
  }
}

TEST_CASE("attention split: beams that share earlier positions") {
  for (CacheType type : all_types) {
    Case c = make_case(type, 2, 2, quick_dim(type), {{0, 400, 0, 0}, {0, 401, 1, 0}, {0, 30, 2, 0}});
    c.options.indirection_positions = 416;
    c.options.cache_indirection.assign(3 * 416, 0xffffffff);
    for (const Row& row : c.rows) {
      for (uint32_t p = 0; p <= row.position; ++p) {
        c.options.cache_indirection[row.sequence * 416 + p] = p == row.position ? row.sequence : p / 3 % 3;
      }
    }
    check_split(c);
  }
}

TEST_CASE("attention split: only where workgroups are few and positions many") {
  AttentionArgs args;
  args.heads = 8;
  args.q = {{}, 1, 0, 8 * 64, 8 * 64};
  args.cache.layout = {CacheType::f16, 1, 2048, 2, 64};
  const auto chosen = [&](const DeviceProfile& profile, uint32_t rows, uint32_t capacity, uint32_t window,
                          AttentionMask mask) {
    args.q.rows = rows;
    args.cache.layout.capacity = capacity;
    args.window = window;
    args.mask = mask;
    return choose_variant(attention_variants(), profile, args, attention_shape_class(args)).name;
  };
  DeviceProfile profile;
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "split-kv");
  CHECK(chosen(profile, 512, 2048, 0, AttentionMask::causal) == "portable");
  CHECK(chosen(profile, 1, 128, 0, AttentionMask::causal) == "portable");
  CHECK(chosen(profile, 1, 2048, 100, AttentionMask::causal) == "portable");
  CHECK(chosen(profile, 1, 2048, 300, AttentionMask::causal) == "split-kv");
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::bidirectional) == "portable");
  // Eight heads of sixteen spans: what one row leaves must be in reach.
  profile.range_bytes = 8 * 16 * (64 + 2) * 4;
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "split-kv");
  --profile.range_bytes;
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "portable");
  profile.range_bytes = DeviceProfile().range_bytes;
  profile.cpu = true;
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "portable");
  profile.cpu8 = true;
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "cpu8");
  profile.forced = "split-kv";
  CHECK(chosen(profile, 1, 2048, 0, AttentionMask::causal) == "split-kv");
}
