#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernel/attention/attention.h"
#include "kernel/attention/attention_reference.h"
#include "kernel/products/rows.h"
#include "kernel/test_lowering.h"
#include "shaders/attention/attention.params.h"
#include "shaders/common/step.h"
#include "support/in_turn.h"
#include "support/vulkan/gpu.h"

// Cases of attention, and how one runs on the device and is held against the reference.
namespace attention_case {

using namespace pumice;
using namespace attention_reference;

constexpr float untouched = -777.0f; // fills the result before a run

inline std::vector<float> random_floats(size_t count, uint32_t seed, float size = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// Consecutive tokens of one sequence.
inline std::vector<Row> prefill(uint32_t count, uint32_t position, uint32_t sequence = 0,
                                uint32_t first = 0) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < count; ++i) rows.push_back({0, position + i, sequence, first});
  return rows;
}

struct Case {
  CacheLayout layout;
  Options options;
  std::vector<Row> rows;
  uint32_t capacity = 0;    // of the step; 0: as many as there are rows
  bool one_sequence = true; // workgroups have several tokens
  float key_size = 1;
  uint32_t q_first = 0;        // column of a wider matrix that the queries begin at
  std::vector<uint32_t> pages; // of each sequence; none: the cache is not in pages
  uint32_t seed = 1;

  uint32_t positions() const { // that a sequence has had
    uint32_t end = 1;
    for (const Row& row : rows) end = std::max(end, seen(options, row).end);
    return end;
  }
  uint32_t step_rows() const { return capacity ? capacity : static_cast<uint32_t>(rows.size()); }
  uint32_t columns() const { return options.heads * layout.head_dim; }
  uint32_t stride() const { return (columns() + 31) / 32 * 32; }
  std::string text() const {
    return fmt::format("heads {}/{} dim {} {} mask {} window {} of {} cap {} bias {} rows {} position {} "
                       "sequence {} first {}",
                       options.heads, layout.kv_heads, layout.head_dim, to_string(layout.type),
                       static_cast<uint32_t>(options.mask), options.window, layout.capacity, options.soft_cap,
                       options.bias.buckets, rows.size(), rows[0].position, rows[0].sequence, rows[0].first);
  }
};

// A head size for what does not depend on it. Of f32, of which alone several tokens share a workgroup, it
// lets in two of them: of smaller heads it would be four, which a driver without GPU takes twice as long to
// compile.
inline uint32_t quick_dim(CacheType type) {
  return type == CacheType::f32 ? 160 : 24;
}

// In a short run several tokens share a workgroup in f32 alone: such kernels of the other types take a driver
// without GPU two seconds to compile, where those of a token take a third of one.
inline Case make_case(CacheType type, uint32_t heads, uint32_t kv_heads, uint32_t dim, std::vector<Row> rows,
                      uint32_t window = 0) {
  Case c;
  uint32_t capacity = 32, sequences = 1;
  for (const Row& row : rows) {
    capacity = std::max(capacity, (row.position + 32) / 32 * 32);
    sequences = std::max(sequences, row.sequence + 1);
  }
  c.layout = {type, sequences, capacity, kv_heads, dim};
  c.options = {heads, 1 / std::sqrt(static_cast<double>(dim)), window};
  c.rows = std::move(rows);
  c.one_sequence = every_case() || type == CacheType::f32;
  return c;
}

inline uint32_t padded(uint32_t columns) {
  return (columns + 31) / 32 * 32;
}

// Inputs of these lengths side by side in one sequence of the cache, each at a multiple of `block`, from
// `place` times that on. An input's contents depend on its tag alone.
inline Case input_case(CacheType type, uint32_t heads, uint32_t kv_heads, uint32_t dim,
                       const std::vector<uint32_t>& lengths, uint32_t block, uint32_t place = 0,
                       uint32_t tag = 0) {
  std::vector<Row> rows;
  uint32_t first = place * block;
  for (uint32_t length : lengths) {
    for (uint32_t i = 0; i < length; ++i) rows.push_back({tag, first + i, 0, first, first + length});
    first += (length + block - 1) / block * block;
    ++tag;
  }
  Case c = make_case(type, heads, kv_heads, dim, std::move(rows));
  c.options.mask = AttentionMask::bidirectional;
  return c;
}

// Rows of several sequences, sequence i about [memories[i].first, memories[i].second) of the cache.
inline Case memory_case(CacheType type, uint32_t heads, uint32_t kv_heads, uint32_t dim,
                        std::vector<Row> rows, std::vector<std::pair<uint32_t, uint32_t>> memories) {
  Case c = make_case(type, heads, kv_heads, dim, std::move(rows));
  c.options.mask = AttentionMask::cross;
  c.options.memories = std::move(memories);
  c.layout.sequences = 1;
  c.layout.capacity = padded(c.positions());
  return c;
}

inline void give_bias(Case& c, bool both_ways, uint32_t buckets, uint32_t max_distance) {
  c.options.bias = {buckets, max_distance, both_ways};
  c.options.bias_table = random_floats(size_t{buckets} * c.options.heads, 77, 2);
}

// A bias by place, for inputs of a class token and so many patches.
inline void give_place_bias(Case& c, uint32_t patch_rows, uint32_t patch_columns) {
  RelativeBias& bias = c.options.bias;
  bias.patch_rows = patch_rows;
  bias.patch_columns = patch_columns;
  bias.buckets = bias.place_buckets();
  c.options.bias_table = random_floats(size_t{bias.buckets} * c.options.heads, 79, 2);
}

// The bucket of each distance, or of each pair of places, as the kernels read them.
inline std::vector<float> bias_buckets(const RelativeBias& bias) {
  std::vector<float> buckets;
  const int64_t farthest = bias.max_distance;
  for (int64_t distance = -farthest; distance <= farthest && !bias.by_place(); ++distance)
    buckets.push_back(static_cast<float>(bias.bucket(distance)));
  for (uint32_t query = 0; query < bias.places() && bias.by_place(); ++query) {
    for (uint32_t key = 0; key < bias.places(); ++key)
      buckets.push_back(static_cast<float>(bias.place_bucket(query, key)));
  }
  return buckets;
}

// Beams that have parted: what they share lies in the cache of whichever wrote it.
inline void share_earlier_positions(Case& c, uint32_t sequences, uint32_t positions) {
  c.layout.sequences = sequences;
  c.options.indirection_positions = positions;
  c.options.cache_indirection.assign(size_t{sequences} * positions, 0xffffffff);
  for (const Row& row : c.rows) {
    for (uint32_t p = 0; p <= row.position; ++p) {
      const uint32_t mixed = (row.sequence * 7 + p / 3 * 5 + p % 3) % sequences;
      c.options.cache_indirection[row.sequence * positions + p] = p == row.position ? row.sequence : mixed;
    }
  }
}

// Lets the sequences have pages in any order, of some more than they need.
inline void give_pages(Case& c) {
  c.layout.capacity =
      (c.layout.capacity + cache_page_positions - 1) / cache_page_positions * cache_page_positions;
  const uint32_t own = c.layout.capacity / cache_page_positions, entries = (own + 3) / 4 * 4;
  std::vector<uint32_t> order(own * c.layout.sequences + 3);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(order.size()));
  c.pages.assign(size_t{entries} * c.layout.sequences, UINT32_MAX);
  for (uint32_t i = 0; i < own * c.layout.sequences; ++i) c.pages[i / own * entries + i % own] = order[i];
}

// How a case's cache lies on the device.
inline CacheLayout device_layout(const Case& c) {
  CacheLayout layout = c.layout;
  if (!c.pages.empty()) layout.pages = c.layout.capacity / cache_page_positions * c.layout.sequences + 3;
  return layout;
}

// The same bytes in the case's pages.
inline std::vector<uint8_t> in_pages(const Case& c, Side side, const std::vector<uint8_t>& bytes) {
  if (c.pages.empty()) return bytes;
  const uint64_t page = cache_page_positions / 8 *
                        (side == Side::keys || c.layout.values_are_keys ? c.layout.key_tile_bytes()
                                                                        : c.layout.value_tile_bytes());
  const uint32_t own = c.layout.capacity / cache_page_positions, heads = c.layout.kv_heads;
  std::vector<uint8_t> result = cache_reference::unwritten(device_layout(c), side);
  for (uint32_t head = 0; head < c.layout.sequences * heads; ++head) {
    for (uint32_t i = 0; i < own; ++i) {
      const uint64_t to = c.pages[head / heads * (c.pages.size() / c.layout.sequences) + i];
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>((uint64_t{head} * own + i) * page), page,
                  result.begin() + static_cast<ptrdiff_t>((to * heads + head % heads) * page));
    }
  }
  return result;
}

// A bit for each position, set where the row sees it; others are set too, which must not matter.
inline std::vector<float> chosen_bits(const Case& c, uint32_t words) {
  std::vector<float> bits(size_t{c.step_rows()} * words);
  for (size_t i = 0; i < c.rows.size(); ++i) {
    for (uint32_t word = 0; word < words; ++word) {
      uint32_t value = 0;
      for (uint32_t bit = 0; bit < 32; ++bit)
        value |= (c.options.chosen(c.rows[i], word * 32 + bit) ? 1u : 0u) << bit;
      std::memcpy(&bits[i * words + word], &value, sizeof(value));
    }
  }
  return bits;
}

// What a row's queries and its input's contents are made from, wherever the input lies.
inline uint32_t own_seed(const Case& c, const Row& row, uint32_t position) {
  const bool of_input =
      c.options.mask == AttentionMask::bidirectional || c.options.mask == AttentionMask::causal_input;
  return of_input ? row.token * 512 + position - row.first : position;
}

// A bias by content, for a case of one input after the other.
inline void give_content_bias(Case& c, uint32_t buckets, uint32_t max_distance, bool rounded) {
  c.options.bias = {buckets, max_distance, false, false, true, rounded};
  for (const Row& row : c.rows) {
    c.options.score_positions.push_back(row.position);
    const std::vector<float> scores =
        random_floats(size_t{2} * c.options.heads * buckets, 4000 + own_seed(c, row, row.position), 2);
    c.options.bias_scores.insert(c.options.bias_scores.end(), scores.begin(), scores.end());
  }
}

// Only what some row of the case may see is written; the rest is not a number. A position's contents depend
// on nothing but the seed and where it is, in its input if it is of one.
inline Cache make_cache(const Case& c) {
  Cache cache(c.layout, c.positions());
  for (const Row& row : c.rows) {
    const auto [first, end, base] = seen(c.options, row);
    for (uint32_t position = first; position < end; ++position) {
      const uint32_t sequence = cache_sequence(c.options, row, position);
      for (uint32_t head = 0; head < c.layout.kv_heads; ++head) {
        const size_t at = cache.at(sequence, head, position);
        if (!std::isnan(cache.keys[at])) continue;
        const uint32_t seed = c.seed + ((sequence * 16 + head) * 4096 + own_seed(c, row, position)) * 2;
        const std::vector<float> key = random_floats(c.layout.head_dim, seed, c.key_size);
        const std::vector<float> value = random_floats(c.layout.head_dim, seed + 1);
        std::copy(key.begin(), key.end(), cache.keys.begin() + static_cast<ptrdiff_t>(at));
        const std::vector<float>& kept = c.layout.values_are_keys ? key : value;
        std::copy(kept.begin(), kept.end(), cache.values.begin() + static_cast<ptrdiff_t>(at));
      }
    }
  }
  return cache;
}

// The queries of all rows, a row's by its sequence and position.
inline std::vector<float> make_queries(const Case& c) {
  std::vector<float> q;
  for (const Row& row : c.rows) {
    const std::vector<float> one =
        random_floats(c.columns(), c.seed + 100 + own_seed(c, row, row.position) * 7 + row.sequence);
    q.insert(q.end(), one.begin(), one.end());
  }
  return q;
}

inline StepLayout step_layout(const Case& c) {
  const auto memories = static_cast<uint32_t>(c.options.memories.size());
  const auto pages = static_cast<uint32_t>(c.pages.size() / c.layout.sequences);
  return {c.step_rows(), std::max(c.layout.sequences, memories), c.options.indirection_positions, false,
          pages};
}

inline std::vector<uint32_t> step_block(const Case& c) {
  const StepLayout layout = step_layout(c);
  std::vector<uint32_t> block(layout.bytes() / 4,
                              0xffffffff); // entries that are not set name no sequence
  block[0] = static_cast<uint32_t>(c.rows.size());
  for (size_t i = 0; i < c.rows.size(); ++i) {
    const Row& row = c.rows[i];
    const uint32_t quad[] = {c.options.patch_windows ? row.window : row.token, row.position, row.sequence,
                             row.first};
    std::copy_n(quad, 4, block.begin() + static_cast<ptrdiff_t>(4 * (STEP_HEADER_QUADS + i)));
    block[4 * (layout.details() + i) + 3] = row.end;
  }
  for (size_t i = 0; i < c.options.memories.size(); ++i) {
    block[4 * (layout.sequence_quads() + i)] = c.options.memories[i].first;
    block[4 * (layout.sequence_quads() + i) + 1] = c.options.memories[i].second;
  }
  std::copy(c.options.cache_indirection.begin(), c.options.cache_indirection.end(),
            block.begin() + static_cast<ptrdiff_t>(4 * layout.cache_indirection()));
  std::ranges::copy(c.pages, block.begin() + static_cast<ptrdiff_t>(4 * layout.cache_indirection()));
  return block;
}

// A cache with these bytes, in its parts.
inline CacheRef upload_cache(const CacheLayout& layout, const std::vector<uint8_t>& keys,
                             const std::vector<uint8_t>& values) {
  if (layout.pages > 0) return {layout, TestGpu::get().upload(keys), TestGpu::get().upload(values)};
  std::vector<CachePlace> places;
  for (uint32_t i = 0; i < layout.parts(); ++i) {
    const auto upload = [&](Side side, const std::vector<uint8_t>& bytes) {
      return TestGpu::get().upload(cache_reference::part_of(layout, side, i, bytes));
    };
    const BufferRef own = upload(Side::keys, keys);
    places.push_back({own, layout.values_are_keys ? own : upload(Side::values, values)});
  }
  return {layout, places[0].keys, places[0].values, {places.begin() + 1, places.end()}};
}

// What the device computes of a case: the whole results, the padding and the unused rows too.
struct Ran {
  std::vector<float> result;      // [step_rows, stride]
  std::vector<float> weights;     // [step_rows, heads * positions, padded to a multiple of 32]
  size_t dispatches = 0;          // for the result
  std::string kernel;             // the last of them
  std::vector<uint32_t> counters; // of workgroups, as the launches left them
};

// Whether the last workgroup of a row's heads adds up the spans that others have.
inline bool adds_up_itself(const Dispatch& dispatch) {
  return dispatch.kernel.starts_with("attention_portable.") &&
         dispatch.constants[ATTENTION_SPLIT_ID] == ATTENTION_SPLIT_LAST;
}

// `times`: how often the launches follow each other.
inline Ran run_all(const DeviceProfile& profile, const Case& c, const Cache& cache,
                   const std::vector<float>& q, bool weights, size_t times = 1) {
  TestGpu& gpu = TestGpu::get();
  gpu.clear();
  const uint32_t rows = c.step_rows();
  const uint32_t q_stride = c.q_first + c.stride() + 32;
  std::vector<float> wide(size_t{rows} * q_stride, NAN); // what surrounds the queries must not matter
  for (size_t row = 0; row < c.rows.size(); ++row) {
    std::copy_n(q.begin() + row * c.columns(), c.columns(), wide.begin() + row * q_stride + c.q_first);
  }
  const auto blank = [&](uint32_t columns) {
    const std::vector<float> values(size_t{rows} * padded(columns), untouched);
    return ActivationRef{gpu.upload(values), rows, 0, columns, padded(columns)};
  };

  AttentionArgs args;
  const BufferRef q_buffer = gpu.upload(wide);
  args.q = {q_buffer.at(c.q_first * 4, q_buffer.bytes - c.q_first * 4), rows, 0, c.columns(), q_stride};
  args.cache = upload_cache(device_layout(c), in_pages(c, Side::keys, cache.packed_keys()),
                            in_pages(c, Side::values, cache.packed_values()));
  args.heads = c.options.heads;
  args.scale = static_cast<float>(c.options.scale);
  args.soft_cap = static_cast<float>(c.options.soft_cap);
  args.window = c.options.window;
  args.one_sequence = c.one_sequence;
  args.result = blank(c.columns());
  if (weights) args.sums = blank(c.options.heads * 2);
  args.mask = c.options.mask;
  args.chunked = c.options.chunked;
  args.whole_pictures = c.options.whole_pictures;
  args.patch_windows = c.options.patch_windows;
  args.run = c.options.run;
  args.joined = c.options.joined;
  if (!c.options.sinks.empty()) args.sinks = gpu.upload(c.options.sinks);
  if (c.options.chosen) {
    const uint32_t words = padded(c.layout.capacity / 32);
    args.chosen = ActivationRef{gpu.upload(chosen_bits(c, words)), rows, 0, c.layout.capacity / 32, words};
  }
  args.bias = c.options.bias;
  if (args.bias.buckets > 0) {
    if (c.options.bias_scores.empty()) {
      args.bias_table = gpu.upload(c.options.bias_table);
    } else {
      args.bias_scores = upload_rows(c.options.bias_scores, 2 * c.options.heads * args.bias.buckets, 32);
    }
    args.bias_buckets = gpu.upload(bias_buckets(args.bias));
  }
  args.step = gpu.upload(step_block(c));
  args.step_layout = step_layout(c);
  const Graph graph;
  TestLowering lowering(profile, graph, args.step);
  REQUIRE(attention(lowering, args));
  std::vector<Dispatch> launches;
  for (size_t i = 0; i < times; ++i)
    launches.insert(launches.end(), lowering.dispatches().begin(), lowering.dispatches().end());
  gpu.run(launches);
  Ran ran{gpu.read<float>(args.result.buffer),
          {},
          lowering.dispatches().size(),
          lowering.dispatches().back().kernel,
          {}};
  for (const Dispatch& dispatch : lowering.dispatches()) {
    if (!adds_up_itself(dispatch)) continue;
    for (const Dispatch::Binding& binding : dispatch.bindings) {
      if (binding.slot == ATTENTION_COUNTERS) ran.counters = gpu.read<uint32_t>(binding.buffer);
    }
  }
  if (weights) {
    args.result = blank(c.options.heads * c.positions());
    const AttentionArgs whole = args;
    for (const CacheRef& part : whole.cache.parts()) {
      args.cache = part;
      gpu.run(attention_weights(profile, args, c.positions()));
    }
    ran.weights = gpu.read<float>(args.result.buffer);
  }
  return ran;
}

inline std::vector<float> run(const DeviceProfile& profile, const Case& c, const Cache& cache,
                              const std::vector<float>& q) {
  return run_all(profile, c, cache, q, false).result;
}

inline std::vector<float> run(const DeviceProfile& profile, const Case& c) {
  return run(profile, c, make_cache(c), make_queries(c));
}

// The rows in use without their padding, which is checked here.
inline std::vector<float> without_padding(const Case& c, const std::vector<float>& values, uint32_t columns) {
  std::vector<float> result;
  for (size_t row = 0; row < c.step_rows(); ++row) {
    const bool used = row < c.rows.size();
    for (size_t column = 0; column < padded(columns); ++column) {
      const float value = values[row * padded(columns) + column];
      if (!used) {
        REQUIRE(value == untouched);
      } else if (column < columns) {
        result.push_back(value);
      } else {
        REQUIRE(value == 0.0f);
      }
    }
  }
  return result;
}

// Whether a long run alone tries a profile: a CPU driver's short one has other devices' kernels in f32, and
// attention_split_test.cpp has them in each type.
inline bool takes_long(const DeviceProfile& profile, CacheType type) {
  return !every_case() && type != CacheType::f32 && TestGpu::get().profile.cpu && !profile.cpu;
}

inline void check(const Case& c, double bound = 2e-6, bool weights = false) {
  const Cache cache = make_cache(c);
  const std::vector<float> q = make_queries(c);
  std::vector<float> expected, expected_weights;
  for (size_t row = 0; row < c.rows.size(); ++row) {
    const auto one = attend(cache, c.options, c.rows[row], q.data() + row * c.columns());
    expected.insert(expected.end(), one.result.begin(), one.result.end());
    expected_weights.insert(expected_weights.end(), one.weights.begin(), one.weights.end());
  }
  for (const DeviceProfile& profile : profiles_to_test()) {
    if (takes_long(profile, c.layout.type)) continue;
    const Ran ran = run_all(profile, c, cache, q, weights);
    INFO(c.text(), " cpu8 ", profile.cpu8, " uniform ", profile.uniform_loads);
    CHECK(relative_rms(without_padding(c, ran.result, c.columns()), expected) <= bound);
    if (!weights) continue;
    const auto actual = without_padding(c, ran.weights, c.options.heads * c.positions());
    CHECK(relative_rms(actual, expected_weights) <= bound);
    for (size_t i = 0; i < actual.size(); ++i) REQUIRE((expected_weights[i] != 0 || actual[i] == 0));
  }
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// In pages, a case has the bits that it has without, on one device.
inline void check_pages(const DeviceProfile& profile, const Case& c, bool weights = false) {
  Case paged = c;
  give_pages(paged);
  Case whole = paged;
  whole.pages.clear();
  const Cache cache = make_cache(whole);
  const std::vector<float> q = make_queries(c);
  INFO(c.text(), " cpu8 ", profile.cpu8, " forced ", profile.forced);
  const Ran a = run_all(profile, paged, cache, q, weights), b = run_all(profile, whole, cache, q, weights);
  CHECK(a.kernel == b.kernel);
  CHECK(same_bits(a.result, b.result));
  CHECK(same_bits(a.weights, b.weights));
}

constexpr CacheType all_types[] = {CacheType::f32, CacheType::f16, CacheType::q8_0, CacheType::q4_0};
constexpr CacheType mixed_types[] = {CacheType::f16_q8_0, CacheType::q8_0_f16, CacheType::q8_0_q4_0};
constexpr bool both[] = {false, true};

} // namespace attention_case
