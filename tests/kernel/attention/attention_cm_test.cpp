// Attention by cooperative matrices, against a reference that rounds to f16 what the kernel rounds, and
// against the numbers as they are.
#include <numbers>

#include "gpu/kernel_table.h"
#include "io/tensor_type.h"
#include "kernel/attention/attention_case.h"
#include "support/in_turn.h"
#include "support/skip.h"

using namespace attention_case;

namespace {

// f16 keeps 11 bits: a query, a key, a weight and a value are off by 2^-12 of themselves at most each, and
// so is a score around one, in an exponent.
constexpr double bound = 1e-3;
// What is left when the reference rounds to f16 too: weights near the middle of two f16 numbers that scores
// in 32 bits round the other way.
constexpr double rounded_bound = 5e-5;

float half(float value) {
  return half_to_float(float_to_half(std::clamp(value, -65504.0f, 65504.0f)));
}

double whole_weight(double score, double largest) {
  const double log2_e = std::numbers::log2e;
  return 32768 * std::exp2(score * log2_e - std::ceil(largest * log2_e));
}

double half_weight(double score, double largest) {
  return half(static_cast<float>(whole_weight(score, largest)));
}

// The keys and values as the kernel rounds them.
Cache rounded(Case c, const Cache& cache) {
  c.layout.type = CacheType::f32;
  Cache rounded_cache(c.layout, cache.positions);
  const uint32_t dim = c.layout.head_dim;
  for (size_t at = 0; at < rounded_cache.keys.size(); at += dim) {
    const auto round = [&](Side side, const std::vector<float>& from, std::vector<float>& to) {
      const auto kept = cache_reference::kept(cache.layout, side, std::span(from).subspan(at, dim));
      for (uint32_t d = 0; d < dim; ++d) to[at + d] = std::isnan(kept[d]) ? kept[d] : half(kept[d]);
    };
    round(Side::keys, cache.keys, rounded_cache.keys);
    round(Side::values, cache.values, rounded_cache.values);
  }
  return rounded_cache;
}

// Each head's query, after a power of two has brought its largest number to 2^14 or just above.
std::vector<float> rounded(const Case& c, std::vector<float> q) {
  for (size_t at = 0; at < q.size(); at += c.layout.head_dim) {
    float largest = 0;
    for (size_t d = 0; d < c.layout.head_dim; ++d) largest = std::max(largest, std::abs(q[at + d]));
    const int power = largest > 0 ? std::ilogb(largest) - 14 : 0;
    for (size_t d = 0; d < c.layout.head_dim; ++d)
      q[at + d] = std::ldexp(half(std::ldexp(q[at + d], -power)), power);
  }
  return q;
}

std::vector<float> expected(const Case& c, const Cache& cache, const std::vector<float>& q) {
  std::vector<float> all;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto one = attend(cache, c.options, c.rows[row], q.data() + row * c.columns());
    all.insert(all.end(), one.result.begin(), one.result.end());
  }
  return all;
}

// The profile in which the device multiplies matrices of each size: of its own sizes, and where it lets us
// choose, of those that other devices have, which take turns.
std::vector<DeviceProfile> profiles() {
  const DeviceProfile& chosen = TestGpu::get().profile;
  std::vector<MatrixShape> shapes = chosen.matrix_shapes;
  if (chosen.cm2) {
    static size_t turn = 0;
    const std::array others = {MatrixShape{16, 16, 16}, MatrixShape{16, 8, 16}, MatrixShape{32, 8, 16}};
    for (const MatrixShape& shape : turn_of(others, turn++)) shapes.push_back(shape);
  }
  std::vector<DeviceProfile> found;
  for (const MatrixShape& shape : shapes) {
    DeviceProfile profile = forced_profile("cm");
    profile.matrix_shapes = {shape};
    if (32 % shape.m || 32 % shape.n || 32 % shape.k || profile.subgroup < 8) continue;
    if (find_kernel("attention.cm.f16")) found.push_back(profile);
  }
  if (found.empty()) skip("this device, or this build's shader compiler, has no cooperative matrices");
  return found;
}

// The first, for what does not depend on the matrices.
std::vector<DeviceProfile> one_profile() {
  std::vector<DeviceProfile> found = profiles();
  if (found.size() > 1) found.resize(1);
  return found;
}

// For what depends on them a little: in a short run the first.
std::vector<DeviceProfile> some_profiles() {
  return every_case() ? profiles() : one_profile();
}

std::vector<float> run_cm(const DeviceProfile& profile, Case c, const Cache& cache,
                          const std::vector<float>& q) {
  c.one_sequence = true; // the variant is for no others
  const Ran ran = run_all(profile, c, cache, q, false);
  REQUIRE(ran.kernel == "attention.cm." + cache_kernel(c.layout.type));
  return ran.result;
}

void check_cm(const DeviceProfile& profile, const Case& c) {
  const MatrixShape& matrix = profile.matrix_shapes[0];
  INFO(c.text(), " matrices ", matrix.m, " ", matrix.n, " ", matrix.k);
  const Cache cache = make_cache(c);
  const std::vector<float> q = make_queries(c);
  const auto actual = without_padding(c, run_cm(profile, c, cache, q), c.columns());
  const double off = relative_rms(actual, expected(c, cache, q));
  Case rounded_case = c;
  rounded_case.options.weight = half_weight;
  rounded_case.options.sink_weight = whole_weight; // no matrix holds it
  const double rounded_off = relative_rms(actual, expected(rounded_case, rounded(c, cache), rounded(c, q)));
  CHECK(off <= bound);
  CHECK(rounded_off <= rounded_bound);
}

// Rows of a case have the bits that each gives alone.
void check_alone(const DeviceProfile& profile, const Case& together, std::initializer_list<uint32_t> rows) {
  const Cache cache = make_cache(together);
  const std::vector<float> q = make_queries(together);
  const std::vector<float> all = run_cm(profile, together, cache, q);
  const size_t stride = together.stride(), columns = together.columns();
  for (uint32_t row : rows) {
    Case alone = together;
    alone.rows = {together.rows[row]};
    alone.capacity = 16; // of which it is the only one
    const auto begin = q.begin() + static_cast<ptrdiff_t>(row * columns);
    const std::vector<float> own(begin, begin + static_cast<ptrdiff_t>(columns));
    INFO(together.text(), " row ", row);
    const std::vector<float> one = run_cm(profile, alone, cache, own);
    CHECK(same_bits(std::span(one).first(stride), std::span(all).subspan(row * stride, stride)));
  }
}

Case with_cap(Case c, double cap) {
  c.options.soft_cap = cap;
  return c;
}

Case in_ring(Case c, uint32_t capacity) {
  c.layout.capacity = capacity;
  c.layout.window = c.options.window;
  return c;
}

} // namespace

// Each shape of heads is a kernel of its own, which takes a CPU driver a second to compile.
TEST_CASE("attention cm: heads, head sizes and cache types") {
  for (DeviceProfile profile : profiles()) {
    profile.busy_groups = 1; // so that tiles have as many rows as fit in
    check_cm(profile, make_case(CacheType::f16, 12, 4, 64, prefill(70, 100)));
  }
  for (const DeviceProfile& profile : one_profile()) {
    check_cm(profile, make_case(CacheType::q8_0, 3, 1, 20, prefill(33, 9)));
    check_cm(profile, make_case(CacheType::f32, 4, 4, 4, prefill(16, 0)));
    check_cm(profile, make_case(CacheType::f32, 2, 1, 80, prefill(17, 31)));
    check_cm(profile, make_case(CacheType::q8_0, 1, 1, 128, prefill(64, 40)));
    check_cm(profile, make_case(CacheType::f16, 7, 1, 10, prefill(20, 62)));
    check_cm(profile, make_case(CacheType::f16, 71, 1, 8, prefill(16, 33))); // a group in two parts
    for (CacheType type : turns_of(all_types, 2, 1)) {
      Case keyed = make_case(type, 4, 1, 72, prefill(33, 9));
      keyed.layout.values_are_keys = true;
      check_cm(profile, keyed);
    }
    check_cm(profile, make_case(CacheType::q8_0_f16, 4, 2, 40, prefill(33, 9)));
    check_cm(profile, make_case(CacheType::f16_q8_0, 4, 2, 64, prefill(33, 9)));
    check_cm(profile, make_case(CacheType::q8_0_q4_0, 4, 2, 40, prefill(33, 9)));
    for (CacheType type : mixed_types) {
      if (every_case()) check_cm(profile, make_case(type, 3, 1, 20, prefill(33, 40)));
    }
    if (profile.matrix_shapes[0].m > 16) continue; // tiles of as few rows
    check_cm(profile, make_case(CacheType::f16, 2, 2, 256, prefill(31, 5)));
  }
  for (DeviceProfile profile : one_profile()) { // with few registers
    profile.registers.matrix_sums = 16;
    profile.registers.matrix_queries = 0;
    profile.registers.matrix_loads = 1;
    for (CacheType type : turns_of(all_types, 2))
      check_cm(profile, make_case(type, 4, 2, 64, prefill(33, 40)));
  }
  for (DeviceProfile profile : one_profile()) { // with so few that many subgroups take 128 rows
    profile.registers.matrix_sums = 4;
    profile.busy_groups = 1;
    check_cm(profile, make_case(CacheType::f16, 4, 2, 16, prefill(150, 200)));
  }
}

TEST_CASE("attention cm: positions") {
  for (const DeviceProfile& profile : some_profiles()) {
    for (uint32_t rows : {16, 33}) {
      for (uint32_t position : {0, 1, 15, 16, 31, 32, 500}) {
        check_cm(profile, make_case(CacheType::f16, 2, 2, 24, prefill(rows, position)));
      }
    }
  }
}

TEST_CASE("attention cm: windows, rings, padding on the left, and rows that see nothing") {
  for (const DeviceProfile& profile : some_profiles()) {
    for (uint32_t window : {1, 7, 32, 100}) {
      check_cm(profile, make_case(CacheType::f16, 2, 2, 24, prefill(33, 0), window));
      check_cm(profile, make_case(CacheType::f16, 2, 2, 24, prefill(33, 90, 0, 70), window));
    }
    check_cm(profile, in_ring(make_case(CacheType::f16, 2, 2, 24, prefill(33, 90), 20), 64));
    check_cm(profile, in_ring(make_case(CacheType::f16, 2, 2, 24, prefill(16, 95, 0, 100), 32), 64));
    for (uint32_t first : {1, 8, 31, 40, 63}) {
      check_cm(profile, make_case(CacheType::f16, 2, 2, 24, prefill(33, 31, 0, first)));
    }
    const Case blind = make_case(CacheType::f16, 2, 2, 24, prefill(17, 4, 0, 30));
    for (float value : run_cm(profile, blind, make_cache(blind), make_queries(blind))) REQUIRE(value == 0.0f);
  }
}

TEST_CASE("attention cm: whole inputs, memories and several sequences") {
  for (const DeviceProfile& profile : some_profiles()) {
    check_cm(profile, input_case(CacheType::f16, 3, 3, 24, {5, 1, 17, 64, 65, 1, 1, 1, 3}, 64));
    check_cm(profile, input_case(CacheType::f16, 3, 3, 24, {33}, 8, 3)); // not at a multiple of a tile
    Case window = input_case(CacheType::f16, 3, 3, 24, {5, 1, 130, 65}, 64);
    window.options.window = 9;
    check_cm(profile, window);
  }
  for (const DeviceProfile& profile : one_profile()) {
    std::vector<Row> rows; // of five sequences, one of which sees nothing
    for (uint32_t i = 0; i < 30; ++i) rows.push_back({0, i, i / 6, 0});
    check_cm(profile, memory_case(CacheType::f16, 3, 3, 24, rows,
                                  {{64, 101}, {0, 1}, {128, 128}, {64, 101}, {192, 200}}));
    rows.clear();
    for (uint32_t i = 0; i < 40; ++i) rows.push_back({0, 20 + i, i % 3, i % 5});
    check_cm(profile, make_case(CacheType::f16, 3, 3, 24, rows));
  }
}

TEST_CASE("attention cm: capped scores, biases, cache indirection, a view of queries and unused rows") {
  for (const DeviceProfile& profile : one_profile()) {
    for (double cap : {0.3, 5.0, 50.0}) {
      check_cm(profile, with_cap(make_case(CacheType::f16, 2, 2, 24, prefill(17, 60)), cap));
    }
    Case input = input_case(CacheType::f32, 4, 2, 24, {150, 1, 30}, 64);
    give_bias(input, true, 32, 128);
    check_cm(profile, input);
    check_cm(profile, with_cap(input, 3));
    Case content = input_case(CacheType::f16, 3, 3, 24, {50, 1, 9, 70}, 64);
    give_content_bias(content, 16, 128, true);
    check_cm(profile, content);
    Case place = input_case(CacheType::f16, 3, 3, 24, {50, 50}, 64);
    give_place_bias(place, 7, 7);
    check_cm(profile, place);
    Case shared = make_case(CacheType::f16, 3, 3, 24, prefill(20, 69, 1));
    for (const Row& row : prefill(13, 70, 2)) shared.rows.push_back(row);
    share_earlier_positions(shared, 4, 100);
    check_cm(profile, shared);
    for (CacheType type : turns_of(all_types, 2, 1)) {
      Case rows = make_case(type, 4, 2, 40, prefill(40, 160, 1));
      for (const Row& row : prefill(9, 30, 0)) rows.rows.push_back(row);
      check_pages(profile, rows);
    }
    Case sinks = make_case(CacheType::f16, 6, 2, 24, prefill(33, 90, 0, 70), 20);
    sinks.options.sinks = random_floats(6, 78, 4);
    check_cm(profile, sinks);
    sinks.options.chunked = true;
    check_cm(profile, sinks);
    Case view = make_case(CacheType::f16, 2, 1, 20, prefill(17, 10));
    view.capacity = 40;
    view.q_first = 40;
    check_cm(profile, view);
  }
}

TEST_CASE("attention cm: numbers outside the range of f16") {
  for (const DeviceProfile& profile : one_profile()) {
    Case c = make_case(CacheType::f32, 2, 2, 24, prefill(17, 60));
    const Cache cache = make_cache(c);
    // Whatever the queries' size, scores are as exact as those of size one.
    for (double size : {1e-30, 1e-6, 7e4, 1e20}) {
      std::vector<float> q = make_queries(c);
      for (float& value : q) value = static_cast<float>(value * size);
      Case scaled = c;
      scaled.options.scale = c.options.scale / size;
      const auto actual = without_padding(c, run_cm(profile, scaled, cache, q), c.columns());
      CAPTURE(size);
      CHECK(relative_rms(actual, expected(scaled, cache, q)) <= bound);
    }
    // Scores so large that floats beside them are whole numbers, or farther apart.
    for (double size : {3e7, 1e8, 3e9}) {
      Case large = c;
      large.options.scale = c.options.scale * size;
      CAPTURE(size);
      for (float value : run_cm(profile, large, cache, make_queries(c))) REQUIRE(std::isfinite(value));
    }
    c.key_size = 1e30f;
    std::vector<float> q = make_queries(c);
    for (float& value : q) value *= 1e10f;
    for (float value : run_cm(profile, c, make_cache(c), q)) REQUIRE(std::isfinite(value));
  }
}

TEST_CASE("attention cm: many small weights are not lost") {
  for (const DeviceProfile& profile : one_profile()) {
    // One position outweighs each of the others, whose values alone count, forty million times.
    Case c = make_case(CacheType::f32, 1, 1, 8, prefill(16, 2000));
    Cache cache = make_cache(c);
    std::vector<float> q(c.rows.size() * 8, 1.0f);
    for (uint32_t position = 0; position < c.positions(); ++position) {
      const size_t at = cache.at(0, 0, position);
      std::fill_n(cache.keys.begin() + static_cast<ptrdiff_t>(at), 8, position == 100 ? 6.2f : 0.0f);
      std::fill_n(cache.values.begin() + static_cast<ptrdiff_t>(at), 8, position == 100 ? 0.0f : 1.0f);
    }
    const auto actual = without_padding(c, run_cm(profile, c, cache, q), c.columns());
    CHECK(relative_rms(actual, expected(c, cache, q)) <= 1e-2); // the score is 17
  }
}

TEST_CASE("attention cm: a row has the same bits whatever rows are beside it, wherever its input lies") {
  for (DeviceProfile profile : one_profile()) {
    profile.busy_groups = 8; // many rows get larger tiles than one
    check_alone(profile, make_case(CacheType::f16, 12, 4, 64, prefill(70, 100)), {0, 1, 30, 69});
  }
  for (const DeviceProfile& profile : profiles()) {
    check_alone(profile, make_case(CacheType::f16, 2, 2, 24, prefill(33, 90, 0, 3), 20), {0, 17, 32});
    const Case packed = input_case(CacheType::f16, 3, 3, 24, {33, 1, 9, 70, 2}, 64);
    check_alone(profile, packed, {0, 32, 33, 42, 43, 110, 114});
    const std::vector<float> all = run_cm(profile, packed, make_cache(packed), make_queries(packed));
    const Case elsewhere = input_case(CacheType::f16, 3, 3, 24, {33}, 64, 3);
    CHECK(same_bits(run_cm(profile, elsewhere, make_cache(elsewhere), make_queries(elsewhere)),
                    std::span(all).first(33 * packed.stride())));
  }
}

TEST_CASE("attention cm: what a row must not see does not reach it") {
  for (const DeviceProfile& profile : profiles()) {
    const Case c = make_case(CacheType::f16, 2, 2, 24, prefill(17, 40));
    Cache cache = make_cache(c);
    const std::vector<float> q = make_queries(c);
    const std::vector<float> before = run_cm(profile, c, cache, q);
    for (float other : {INFINITY, -INFINITY, NAN}) {
      for (uint32_t head = 0; head < 2; ++head) {
        cache.values[cache.at(0, head, 43) + 1] = other; // seen by the rows from position 43 on
        cache.keys[cache.at(0, head, 43) + 1] = other;
      }
      const std::vector<float> after = run_cm(profile, c, cache, q);
      CHECK(same_bits(std::span(before).first(3 * c.stride()), std::span(after).first(3 * c.stride())));
    }
  }
}

TEST_CASE("attention cm: only for many rows of one sequence, of heads that fit in") {
  DeviceProfile profile;
  profile.subgroup = 32;
  profile.matrix_shapes = {{16, 16, 16}};
  AttentionArgs args;
  args.heads = 8;
  args.q = {{}, 16, 0, 8 * 64, 8 * 64};
  args.cache.layout = {CacheType::f16, 1, 2048, 2, 64};
  if (!find_kernel("attention.cm.f16"))
    return skip("this build's shader compiler has no cooperative matrices");
  const auto chosen = [&] {
    return choose_variant(attention_variants(), profile, args, attention_shape_class(args)).name;
  };
  CHECK(chosen() != "cm"); // it rounds
  profile.forced = "cm";
  CHECK(chosen() == "cm");
  args.q.rows = 15;
  CHECK(chosen() != "cm");
  args.q.rows = 16;
  args.one_sequence = false;
  CHECK(chosen() != "cm");
  args.one_sequence = true;
  args.sums = args.q;
  CHECK(chosen() != "cm");
  args.sums.reset();
  args.cache.layout.head_dim = 512;
  CHECK(chosen() != "cm");
  args.cache.layout.head_dim = 256;
  CHECK(chosen() == "cm");
  profile.matrix_shapes = {{48, 16, 16}, {16, 16, 64}}; // that divide no tile
  CHECK(chosen() != "cm");
  profile.matrix_shapes.clear();
  CHECK(chosen() != "cm");
}
