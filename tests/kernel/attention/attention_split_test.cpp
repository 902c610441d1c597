#include "kernel/attention/attention_case.h"

// Attention whose positions are divided among workgroups.

using namespace attention_case;

namespace {

DeviceProfile forced(const std::string& variant) {
  DeviceProfile profile;
  profile.forced = variant;
  return profile;
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
  CHECK(split.dispatches == 2 * parts);
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
    }
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
