#include "kernel/attention/attention_case.h"
#include "kernel/attention/position_reference.h"
#include "kernel/matmul/matmul.h"
#include "kernel/products/rows.h"
#include "kernel/products/weights.h"
#include "shaders/attention/attention.params.h"
#include "support/skip.h"

// Attention that puts its step's keys and values into the cache itself.

using namespace attention_case;

namespace {

// The product that makes the row's query, key and value.
struct Projection {
  TensorType type = TensorType::f16;
  bool bias = false;
  bool row_scale = false;
};

// A case of one row, and how its key gets into the cache.
struct StoringCase {
  Case attention;
  RotaryPairs pairs = RotaryPairs::half_split;
  uint32_t rotary_dim = 0;
  bool query_norm = false;
  bool key_norm = false;
  bool norm_after = false;
  float growth = 0; // of queries
  uint32_t growth_length = 0;
  uint32_t growth_start = 0;
  bool rotary = true;  // otherwise keys and values are kept as they are
  bool places = false; // pairs turn with a place in a picture
  bool sums = false;
  uint32_t step_rows = 1;
  std::optional<Projection> projection = {};
};

// What a step leaves.
struct Left {
  std::vector<float> result, sums;
  std::vector<uint8_t> keys, values;
  size_t dispatches = 0;
};

bool same_bits(const Left& a, const Left& b) {
  return attention_case::same_bits(a.result, b.result) && attention_case::same_bits(a.sums, b.sums) &&
         a.keys == b.keys && a.values == b.values;
}

constexpr float eps = 1e-5f;

// The numbers of a case, from its seed.
struct Inputs {
  std::vector<float> q, k, v, query_norm, key_norm;
  std::vector<double> frequencies;

  explicit Inputs(const StoringCase& c) {
    const CacheLayout& layout = c.attention.layout;
    q = random_floats(c.attention.columns(), 11);
    k = random_floats(layout.kv_heads * layout.head_dim, 12);
    v = random_floats(layout.kv_heads * layout.head_dim, 13);
    if (c.query_norm) query_norm = random_floats(layout.head_dim, 14);
    if (c.key_norm) key_norm = random_floats(layout.head_dim, 15);
    RotaryConfig config;
    config.pairs = c.pairs;
    config.dim = c.rotary_dim;
    frequencies = rotary_frequencies(config);
  }
};

RotaryStoreArgs store_args(const StoringCase& c, const Inputs& in) {
  TestGpu& gpu = TestGpu::get();
  const CacheLayout& layout = c.attention.layout;
  RotaryStoreArgs args;
  args.k = upload_rows(in.k, layout.kv_heads * layout.head_dim, 64, true);
  args.v = upload_rows(in.v, layout.kv_heads * layout.head_dim, 0, true);
  args.head_dim = layout.head_dim;
  args.step_layout = step_layout(c.attention);
  if (!c.rotary) return args;
  args.heads = c.attention.options.heads;
  args.pairs = c.pairs;
  args.rotary_dim = c.rotary_dim;
  args.query_norm = c.query_norm;
  args.key_norm = c.key_norm;
  args.norm_after = c.norm_after;
  args.query_growth = c.growth;
  args.growth_length = c.growth_length;
  args.growth_start = c.growth_start;
  if (c.places) {
    args.places = PlaceKind::text;
    args.text_pairs = 3;
    args.down_pairs = 4;
  }
  args.norm_eps = eps;
  args.norm_offset = 0.5f;
  std::vector<float> table;
  if (c.pairs != RotaryPairs::none) table = rotary_table(in.frequencies);
  table.insert(table.end(), in.query_norm.begin(), in.query_norm.end());
  table.insert(table.end(), in.key_norm.begin(), in.key_norm.end());
  if (!table.empty()) args.table = gpu.upload(table);
  return args;
}

// Lets a product of x compute the arguments' q, k and v, as views of one row.
void project(const DeviceProfile& profile, const Projection& projection, AttentionArgs& args) {
  TestGpu& gpu = TestGpu::get();
  constexpr uint32_t columns_of_x = 256;
  uint32_t columns = 0;
  const auto add_part = [&](ActivationRef& part) {
    const uint32_t first = columns;
    columns += (part.columns + merged_columns - 1) / merged_columns * merged_columns;
    return first;
  };
  const uint32_t q = add_part(args.q), k = add_part(args.store->k), v = add_part(args.store->v);
  MatmulArgs product;
  product.format = {projection.type, columns_of_x, profile.weight_lane_bytes(projection.type)};
  product.result = blank_rows(1, columns);
  product.step = args.step;
  std::vector<float> x = random_floats(columns_of_x, 21);
  if (projection.row_scale) { // the sums of its squares, over each eight columns
    product.row_scale = RowScale{columns_of_x, eps, columns_of_x};
    for (uint32_t first = 0; first < columns_of_x; first += 8) {
      float squares = 0;
      for (uint32_t i = first; i < first + 8; ++i) squares += x[i] * x[i];
      x.push_back(squares);
    }
  }
  product.x = upload_rows(x, static_cast<uint32_t>(x.size()));
  product.x.columns = columns_of_x;
  const TestWeight weight(projection.type, columns, columns_of_x, 22);
  std::vector<TileSource> tiles;
  for (uint32_t tile = 0; tile < columns / 8; ++tile) tiles.push_back(weight.tile(tile));
  product.weight = upload_tiles(product.format, tiles);
  if (projection.bias) product.bias = gpu.upload(random_floats(columns, 23));
  const auto place = [&](ActivationRef& part, uint32_t first) {
    part.stride = product.result.stride;
    part.buffer = product.result.buffer.at(first * sizeof(float), (columns - first) * sizeof(float));
  };
  place(args.q, q);
  place(args.store->k, k);
  place(args.store->v, v);
  args.store->q = args.q;
  args.projection = product;
}

// `variant` is used if it runs.
Left run(DeviceProfile profile, const StoringCase& c, const std::string& variant) {
  TestGpu& gpu = TestGpu::get();
  gpu.clear();
  const Case& a = c.attention;
  const Inputs in(c);
  const Cache cache = make_cache(a);
  profile.forced = variant;
  std::vector<uint32_t> block = step_block(a);
  block[0] = c.step_rows;
  if (c.places) {
    const StepLayout layout = step_layout(a);
    block[4 * layout.details() + 2] = 5 << 16 | 2;
    block[4 * layout.details() + 3] = 3;
    block[4 * (layout.sequence_quads() + a.rows[0].sequence) + 2] = 9;
  }

  AttentionArgs args;
  args.q = upload_rows(in.q, a.columns(), 32, true);
  args.cache = {device_layout(a), gpu.upload(in_pages(a, Side::keys, cache.packed_keys())),
                gpu.upload(in_pages(a, Side::values, cache.packed_values()))};
  args.heads = a.options.heads;
  args.scale = static_cast<float>(a.options.scale);
  args.soft_cap = static_cast<float>(a.options.soft_cap);
  args.window = a.options.window;
  args.chunked = a.options.chunked;
  if (!a.options.sinks.empty()) args.sinks = gpu.upload(a.options.sinks);
  args.bias = a.options.bias;
  if (args.bias.buckets > 0) {
    args.bias_table = gpu.upload(a.options.bias_table);
    std::vector<float> buckets;
    const int64_t farthest = args.bias.max_distance;
    for (int64_t distance = -farthest; distance <= farthest; ++distance) {
      buckets.push_back(static_cast<float>(args.bias.bucket(distance)));
    }
    args.bias_buckets = gpu.upload(buckets);
  }
  args.result = blank_rows(1, a.columns());
  if (c.sums) args.sums = blank_rows(1, a.options.heads * 2);
  args.step = gpu.upload(block);
  args.step_layout = step_layout(a);
  args.store = store_args(c, in);
  args.store->q = args.q;
  args.store->cache = args.cache;
  args.store->step = args.step;
  if (c.projection) project(profile, *c.projection, args);

  const Graph graph;
  TestLowering lowering(profile, graph, args.step);
  REQUIRE(attention(lowering, args));
  gpu.run(lowering.dispatches());
  Left left;
  left.result = gpu.read<float>(args.result.buffer);
  if (c.sums) left.sums = gpu.read<float>(args.sums->buffer);
  left.keys = gpu.read<uint8_t>(args.cache.keys);
  left.values = gpu.read<uint8_t>(args.cache.values);
  left.dispatches = lowering.dispatches().size();
  return left;
}

// In plain double precision, for a cache of floats.
std::vector<float> expected(const StoringCase& c) {
  const Case& a = c.attention;
  const Row& row = a.rows[0];
  const uint32_t dim = a.layout.head_dim;
  const Inputs in(c);
  Cache cache = make_cache(a);
  const uint32_t counted = row.position - std::min(row.first, row.position); // from the first that it may see
  const auto rotated = [&](const std::vector<float>& heads, uint32_t head, const std::vector<float>& norm) {
    const auto normed = [&](std::vector<double> x) {
      return head_norm_reference(std::move(x), norm, eps, 0.5f);
    };
    const auto turned = [&](const std::vector<double>& x) {
      return rotary_reference(x, c.rotary ? c.pairs : RotaryPairs::none, in.frequencies, counted);
    };
    const auto first = heads.begin() + head * dim;
    const std::vector<double> own(first, first + dim);
    const auto out = c.norm_after ? normed(turned(own)) : turned(normed(own));
    return std::vector<float>(out.begin(), out.end());
  };
  for (uint32_t head = 0; head < a.layout.kv_heads; ++head) {
    const auto at = static_cast<ptrdiff_t>(cache.at(row.sequence, head, row.position));
    const std::vector<float> key = rotated(in.k, head, in.key_norm);
    std::copy(key.begin(), key.end(), cache.keys.begin() + at);
    std::copy_n(in.v.begin() + head * dim, dim, cache.values.begin() + at);
  }
  std::vector<float> q;
  for (uint32_t head = 0; head < a.options.heads; ++head) {
    const double growth = query_growth_reference(c.growth, c.growth_length, counted + c.growth_start);
    for (float x : rotated(in.q, head, in.query_norm)) q.push_back(static_cast<float>(x * growth));
  }
  return attend(cache, a.options, row, q.data()).result;
}

void check_storing(const StoringCase& c) {
  for (const DeviceProfile& profile : profiles_to_test()) {
    if (takes_long(profile, c.attention.layout.type)) continue;
    INFO(c.attention.text(), " pairs ", to_string(c.pairs), " of ", c.rotary_dim, " norms ", c.query_norm,
         c.key_norm, " rotary ", c.rotary, " cpu8 ", profile.cpu8, " texels ", profile.texel_loads);
    const Left apart = run(profile, c, profile.cpu8 ? "cpu8" : "portable");
    CHECK(apart.dispatches == 2);
    if (c.attention.layout.type == CacheType::f32) {
      CHECK(relative_rms(without_padding(c.attention, apart.result, c.attention.columns()), expected(c)) <=
            3e-6);
    }
    const Left together = run(profile, c, "");
    // A kernel must not read as texels what it stores itself.
    const bool in_one = profile.cpu8 && (profile.uniform_loads || !profile.texel_loads);
    CHECK(together.dispatches == (in_one ? 1 : 2));
    CHECK(same_bits(together, apart));
  }
}

// The profile of a GPU whose kernels may have as many buffers as the device's.
DeviceProfile rope_profile() {
  DeviceProfile profile;
  profile.storage_buffers = TestGpu::get().profile.storage_buffers;
  return profile;
}

// The kernel for GPUs that stores itself. `divided`: the cache is longer than a span.
void check_rope(const StoringCase& c, bool divided) {
  INFO(c.attention.text(), " pairs ", to_string(c.pairs), " of ", c.rotary_dim, " norms ", c.query_norm,
       c.key_norm, " rotary ", c.rotary);
  const Left apart = run(rope_profile(), c, "portable");
  CHECK(apart.dispatches == 2);
  const Left together = run(rope_profile(), c, "");
  const bool apart_sums = c.sums || c.attention.options.bias.buckets > 0; // added up by a launch
  CHECK(together.dispatches == (divided && apart_sums ? 2 : 1));
  CHECK(same_bits(together, apart));
  if (c.attention.layout.type != CacheType::f32 || c.step_rows == 0) return;
  CHECK(relative_rms(without_padding(c.attention, together.result, c.attention.columns()), expected(c)) <=
        3e-6);
}

StoringCase make_storing(CacheType type, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t position,
                         uint32_t window = 0) {
  StoringCase c;
  c.attention = make_case(type, heads, kv_heads, dim, prefill(1, position), window);
  c.rotary_dim = dim / 2 * 2;
  return c;
}

} // namespace

// Each type, group, head size, rotation, norm and option is a kernel of its own. In a short run they do not
// meet each with each, and more than one head shares a workgroup in f32 alone.

TEST_CASE("attention that stores: the bits of storing first, whatever the heads and the cache") {
  for (CacheType type : all_types) {
    for (uint32_t position : {0, 1, 7, 8, 31, 70, 100}) {
      check_storing(make_storing(type, 2, 2, 32, position));
      if (every_case()) check_storing(make_storing(type, 6, 2, 32, position));
    }
  }
  check_storing(make_storing(CacheType::f32, 2, 1, 5, 40));
  check_storing(make_storing(CacheType::f16, 3, 3, 18, 33));
  // In two workgroups, one of which has a head less.
  check_storing(make_storing(every_case() ? CacheType::q8_0 : CacheType::f32, 7, 1, 40, 65));
  check_storing(make_storing(CacheType::f16, every_case() ? 4 : 1, 1, 128, 9));
  check_storing(make_storing(CacheType::f32, 2, 1, 320, 9));
}

TEST_CASE("attention that stores: rotations and norms") {
  constexpr RotaryPairs all_pairs[] = {RotaryPairs::none, RotaryPairs::neighbouring, RotaryPairs::half_split};
  for (const auto& [pairs, norms, type] : in_turn(all_pairs, both, all_types)) {
    StoringCase c = make_storing(type, 2, 2, 24, 50);
    c.pairs = pairs;
    c.rotary_dim = norms ? 24 : 10;
    c.query_norm = c.key_norm = norms;
    check_storing(c);
  }
  StoringCase c = make_storing(CacheType::f16, 2, 2, 24, 50);
  c.key_norm = true;
  check_storing(c);
  for (const auto& [pairs, grows] : in_turn(std::span(all_pairs).subspan(1), both)) {
    c.pairs = pairs;
    c.rotary_dim = 16;
    c.query_norm = c.norm_after = true;
    c.growth = grows ? 0.5f : 0;
    c.growth_length = grows ? 7 : 0;
    c.growth_start = grows ? 1 : 0;
    check_storing(c);
  }
}

TEST_CASE("attention that stores: places in pictures") {
  StoringCase c = make_storing(CacheType::f16, 2, 2, 24, 50);
  c.places = true;
  check_storing(c);
  const DeviceProfile& profile = TestGpu::get().profile;
  StoringCase plain = c;
  plain.places = false;
  CHECK(!same_bits(run(profile, plain, ""), run(profile, c, "")));
}

TEST_CASE("attention that stores: windows, rings, caps, biases, sums, padding and cache indirection") {
  StoringCase ring = make_storing(CacheType::f32, 2, 2, 32, 71, 20);
  ring.attention.layout.capacity = 32;
  ring.attention.layout.window = 20;
  StoringCase chunked = ring;
  chunked.attention.options.chunked = true;
  chunked.attention.options.sinks = random_floats(2, 78, 4);

  StoringCase all = make_storing(CacheType::f32, 2, 2, 32, 90, 40);
  all.attention.rows[0].first = 61;
  all.attention.options.soft_cap = 5;
  all.attention.options.bias = {8, 20, false};
  all.attention.options.bias_table = random_floats(8 * 2, 77, 2);
  all.sums = true;

  StoringCase beam = make_storing(CacheType::f32, 2, 2, 32, 45);
  beam.attention.rows[0].sequence = 2;
  beam.attention.layout.sequences = 3;
  beam.attention.options.indirection_positions = 48;
  beam.attention.options.cache_indirection.assign(3 * 48, 0xffffffff);
  for (uint32_t p = 0; p <= 45; ++p)
    beam.attention.options.cache_indirection[2 * 48 + p] = p == 45 ? 2 : p % 3;

  for (const auto& [kind, type] : in_turn(std::array{ring, chunked, all, beam}, all_types)) {
    StoringCase c = kind;
    c.attention.layout.type = type;
    check_storing(c);
  }
}

TEST_CASE("attention that stores: into a page of a pool") {
  for (CacheType type : all_types) {
    StoringCase whole = make_storing(type, 2, 2, 32, 133); // in two spans
    whole.attention.rows[0].sequence = 1;
    whole.attention.layout.sequences = 2;
    StoringCase paged = whole;
    give_pages(paged.attention);
    whole.attention.layout.capacity = paged.attention.layout.capacity;
    if (type == CacheType::f32) {
      StoringCase short_one = make_storing(type, 2, 2, 32, 70);
      short_one.attention.rows[0].sequence = 1;
      short_one.attention.layout.sequences = 2;
      give_pages(short_one.attention);
      check_storing(short_one);
    }
    if (type == CacheType::f16 && rope_profile().storage_buffers > ATTENTION_TABLE) check_rope(paged, true);
    for (const DeviceProfile& profile : profiles_to_test()) {
      if (takes_long(profile, type)) continue;
      const Left a = run(profile, paged, ""), b = run(profile, whole, "");
      CHECK(attention_case::same_bits(a.result, b.result));
      CHECK(a.keys == in_pages(paged.attention, Side::keys, b.keys));
      CHECK(a.values == in_pages(paged.attention, Side::values, b.values));
    }
  }
}

TEST_CASE("attention that stores: keys and values as they are") {
  for (CacheType type : all_types) {
    StoringCase c = make_storing(type, 2, 2, 20, 37);
    c.rotary = false;
    c.pairs = RotaryPairs::none;
    check_storing(c);
  }
}

TEST_CASE("attention that stores: a step without rows leaves everything as it was") {
  StoringCase c = make_storing(CacheType::f16, 2, 2, 32, 20);
  c.step_rows = 0;
  for (const DeviceProfile& profile : profiles_to_test()) {
    const Left left = run(profile, c, "");
    const Cache cache = make_cache(c.attention);
    for (float value : left.result) REQUIRE(value == sentinel);
    CHECK(left.keys == cache.packed_keys());
    CHECK(left.values == cache.packed_values());
  }
}

TEST_CASE("attention rope: the bits of storing first, wherever the row's span is") {
  if (rope_profile().storage_buffers <= ATTENTION_TABLE) return skip("a kernel has too few buffers here");
  for (CacheType type : all_types) {
    for (uint32_t position : {0, 7, 100, 127}) check_rope(make_storing(type, 4, 2, 32, position), false);
    for (uint32_t position : {0, 127, 128, 255, 300}) {
      StoringCase c = make_storing(type, 4, 2, 32, position);
      c.attention.layout.capacity = 320;
      check_rope(c, true);
    }
  }
}

TEST_CASE("attention rope: heads of other sizes, norms, rings, and rows that see nothing") {
  if (rope_profile().storage_buffers <= ATTENTION_TABLE) return skip("a kernel has too few buffers here");
  StoringCase normed = make_storing(CacheType::f16, 2, 2, 20, 150);
  normed.pairs = RotaryPairs::neighbouring;
  normed.rotary_dim = 10;
  normed.query_norm = normed.key_norm = true;
  check_rope(normed, true);
  // In two workgroups, one of which has a head less; both store the key.
  StoringCase grouped = make_storing(CacheType::q8_0, 7, 1, 40, 65);
  grouped.places = true;
  check_rope(grouped, false);
  StoringCase ring = make_storing(CacheType::f32, 2, 2, 18, 471, 290);
  ring.attention.layout.capacity = 320;
  ring.attention.layout.window = 290;
  ring.attention.options.chunked = true;
  ring.attention.options.sinks = random_floats(2, 78, 4);
  ring.sums = true;
  check_rope(ring, true);
  StoringCase plain = make_storing(CacheType::f32, 2, 1, 5, 200);
  plain.rotary = false;
  plain.pairs = RotaryPairs::none;
  plain.attention.options.soft_cap = 5;
  plain.attention.options.bias = {8, 20, false};
  plain.attention.options.bias_table = random_floats(8 * 2, 77, 2);
  check_rope(plain, true);
  StoringCase blind = make_storing(CacheType::f16, 4, 2, 32, 200);
  blind.attention.rows[0].first = 260;
  check_rope(blind, true);
  blind.step_rows = 0;
  check_rope(blind, true);
}

TEST_CASE("attention rope: only of one row, in kernels with buffers enough") {
  AttentionArgs args;
  args.heads = 8;
  args.q = {{}, 1, 0, 8 * 64, 8 * 64};
  args.cache.layout = {CacheType::f16, 1, 2048, 2, 64};
  const auto chosen = [&](const DeviceProfile& profile) {
    return choose_variant(attention_variants(), profile, args, attention_shape_class(args)).name;
  };
  DeviceProfile profile;
  CHECK(chosen(profile) == "split-kv"); // nothing to store
  args.store.emplace();
  CHECK(chosen(profile) == "split-kv"); // too few buffers
  profile.storage_buffers = ATTENTION_TABLE + 1;
  CHECK(chosen(profile) == "rope");
  args.q.rows = 2;
  CHECK(chosen(profile) == "split-kv");
  args.q.rows = 1;
  args.cache.layout.values_are_keys = true;
  CHECK(chosen(profile) == "split-kv");
  args.cache.layout.values_are_keys = false;
  profile.cpu = true;
  CHECK(chosen(profile) == "portable");
}

TEST_CASE("attention that projects and stores: the bits of doing one after the other") {
  DeviceProfile profile = TestGpu::get().profile;
  if (!profile.cpu8) return skip("only CPU drivers have it");
  profile.threads = 1; // groups for all of them
  profile.vector_registers = 32;
  profile.texel_loads = false;
  const auto check = [&](StoringCase c, const Projection& projection) {
    c.projection = projection;
    INFO(c.attention.text(), " weights ", info(projection.type).name);
    const Left apart = run(profile, c, "cpu8-rope"), together = run(profile, c, "cpu8-qkv");
    CHECK(apart.dispatches == 2);
    CHECK(together.dispatches == 1);
    CHECK(same_bits(together, apart));
  };
  constexpr TensorType types[] = {TensorType::f32,  TensorType::f16,  TensorType::q8_0,
                                  TensorType::q4_0, TensorType::q4_k, TensorType::q6_k};
  for (TensorType type : turns_of(types, 2))
    check(make_storing(CacheType::f16, every_case() ? 6 : 2, 2, 32, 41), {.type = type, .row_scale = true});
  StoringCase c = make_storing(CacheType::f16, every_case() ? 6 : 2, 2, 96, 9);
  c.query_norm = c.key_norm = true;
  check(c, {.bias = true});
  c = make_storing(CacheType::f16, 6, 2, 32, 41);
  c.places = true;
  check(c, {});
  c = make_storing(CacheType::f16, 1, 1, 64, 0);
  c.rotary = false;
  c.pairs = RotaryPairs::none;
  check(c, {.bias = true, .row_scale = true});
}

TEST_CASE("attention that projects: what it leaves to a product before it") {
  DeviceProfile profile = TestGpu::get().profile;
  if (!profile.cpu8) return skip("only CPU drivers have it");
  profile.texel_loads = false;
  const auto dispatches = [&](const StoringCase& from, uint32_t threads, uint32_t registers = 32) {
    StoringCase c = from;
    c.projection = Projection{};
    profile.threads = threads;
    profile.vector_registers = registers;
    return run(profile, c, "").dispatches;
  };
  const StoringCase c = make_storing(CacheType::f16, 6, 2, 32, 41);
  CHECK(dispatches(c, 2) == 1);
  CHECK(dispatches(c, 3) == 2); // one thread would have nothing to do
  CHECK(dispatches(c, 2, 16) == 2);
  CHECK(dispatches(make_storing(CacheType::f32, 6, 2, 32, 41), 2) == 2);
  CHECK(dispatches(make_storing(CacheType::f16, 6, 2, 20, 41), 2) == 2);
}
