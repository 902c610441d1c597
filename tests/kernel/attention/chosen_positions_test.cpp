#include "kernel/attention/chosen_positions.h"

#include <numeric>

#include "kernel/attention/attention_case.h"

using namespace attention_case;

namespace {

struct Choice {
  Case c; // whose queries and keys are the indexer's
  std::vector<float> weights;
  uint32_t most = 1;
  bool whole_numbers = false; // scores are exact, and many are equal
};

Choice make_choice(CacheType type, uint32_t heads, uint32_t dim, uint32_t most, std::vector<Row> rows) {
  Choice choice;
  choice.c = make_case(type, heads, 1, dim, std::move(rows));
  choice.c.layout.values_are_keys = true;
  choice.c.options.scale = 0.125;
  choice.most = most;
  choice.weights = random_floats(choice.c.rows.size() * heads, 5);
  return choice;
}

void round_all(std::vector<float>& values) {
  for (float& value : values) value = std::round(value);
}

// The numbers of the positions that a row keeps.
std::vector<uint32_t> kept(const std::vector<uint32_t>& words, size_t row, uint32_t stride, const Row& of) {
  std::vector<uint32_t> positions;
  for (uint32_t p = of.first; p <= of.position; ++p) {
    if (words[row * stride + p / 32] >> p % 32 & 1) positions.push_back(p);
  }
  return positions;
}

// Those that a row must keep, the best first.
std::vector<std::pair<double, uint32_t>> by_score(const Choice& choice, const Cache& cache, size_t row,
                                                  const std::vector<float>& q) {
  const Case& c = choice.c;
  const uint32_t heads = c.options.heads, dim = c.layout.head_dim;
  const Row& of = c.rows[row];
  std::vector<std::pair<double, uint32_t>> scores;
  for (uint32_t p = of.first; p <= of.position; ++p) {
    const std::vector<float> key = cache.key(cache_sequence(c.options, of, p), 0, p);
    double sum = 0;
    for (uint32_t head = 0; head < heads; ++head) {
      double product = 0;
      for (uint32_t d = 0; d < dim; ++d) product += double{q[row * heads * dim + head * dim + d]} * key[d];
      sum += double{choice.weights[row * heads + head]} * std::max(c.options.scale * product, 0.0);
    }
    scores.emplace_back(sum, p);
  }
  std::ranges::stable_sort(scores, [](const auto& a, const auto& b) { return a.first > b.first; });
  return scores;
}

struct Chosen {
  std::vector<uint32_t> words;
  uint32_t stride = 0;
};

Chosen run_choice(const DeviceProfile& profile, const Choice& choice, const Cache& cache,
                  const std::vector<float>& q) {
  TestGpu& gpu = TestGpu::get();
  gpu.clear();
  const Case& c = choice.c;
  ChoosePositionsArgs args;
  args.q = upload_rows(q, c.columns(), 32, true);
  args.weights = upload_rows(choice.weights, c.options.heads, 0, true);
  args.cache = upload_cache(device_layout(c), in_pages(c, Side::keys, cache.packed_keys()), {});
  args.heads = c.options.heads;
  args.scale = static_cast<float>(c.options.scale);
  args.most = choice.most;
  args.context = c.positions();
  args.step = gpu.upload(step_block(c));
  args.step_layout = step_layout(c);
  args.result = blank_rows(c.step_rows(), chosen_words(args.context));
  const Graph graph;
  TestLowering lowering(profile, graph, args.step);
  choose_positions(lowering, args);
  gpu.run(lowering.dispatches());
  return {gpu.read<uint32_t>(args.result.buffer), args.result.stride};
}

// Any of scores that are equal but for rounding may be kept; of whole numbers, the first positions.
void check(Choice choice) {
  Case& c = choice.c;
  Cache cache = make_cache(c);
  std::vector<float> q = make_queries(c);
  if (choice.whole_numbers) {
    round_all(cache.keys);
    round_all(q);
    round_all(choice.weights);
  }
  for (const DeviceProfile& profile : profiles_to_test()) {
    INFO(c.text(), " most ", choice.most, " cpu8 ", profile.cpu8);
    const Chosen chosen = run_choice(profile, choice, cache, q);
    for (size_t row = 0; row < c.rows.size(); ++row) {
      const auto scores = by_score(choice, cache, row, q);
      const std::vector<uint32_t> found = kept(chosen.words, row, chosen.stride, c.rows[row]);
      const size_t count = std::min<size_t>(choice.most, scores.size());
      REQUIRE(found.size() == count);
      std::vector<uint32_t> expected;
      for (size_t i = 0; i < count; ++i) expected.push_back(scores[i].second);
      std::ranges::sort(expected);
      if (found == expected) continue;
      REQUIRE_FALSE(choice.whole_numbers);
      const double bound = scores[count - 1].first, slack = 1e-4 * (std::fabs(scores[0].first) + 1);
      for (const auto& [score, position] : scores) {
        const bool is_kept = std::ranges::find(found, position) != found.end();
        REQUIRE((is_kept ? score >= bound - slack : score <= bound + slack));
      }
    }
  }
  TestGpu::get().clear();
}

bool third(const Row& row, uint32_t position) {
  return (position + row.position) % 3 == 0 || position == row.position;
}

bool sparse(const Row& row, uint32_t position) {
  return position % 97 == row.position % 97;
}

} // namespace

TEST_CASE("chosen positions: heads, dimensions, and how many") {
  for (const CacheType type : all_types) {
    check(make_choice(type, 3, 24, 5, prefill(9, 30)));
    check(make_choice(type, 64, 128, 33, prefill(2, 99)));
  }
  for (const uint32_t heads : {1u, 2u, 7u, 9u, 33u})
    check(make_choice(CacheType::f32, heads, 17, 8, prefill(11, 0)));
  for (const uint32_t most : {1u, 31u, 32u, 37u, 38u, 1000u})
    check(make_choice(CacheType::f32, 4, 16, most, prefill(7, 31)));
  check(make_choice(CacheType::f16, 5, 100, 300, prefill(3, 700)));
}

TEST_CASE("chosen positions: of equal scores the first are kept") {
  for (const uint32_t most : {1u, 3u, 40u, 64u, 100u}) {
    for (const uint32_t heads : {1u, 4u}) {
      Choice choice = make_choice(CacheType::f16, heads, 16, most, prefill(5, 120));
      choice.whole_numbers = true;
      check(choice);
      std::ranges::fill(choice.weights, -1.0f); // the best are zeros, of either sign
      check(choice);
      std::ranges::fill(choice.weights, 0.0f);
      check(choice);
    }
  }
}

TEST_CASE("chosen positions: sequences, beginnings, pages, beams and parts") {
  std::vector<Row> rows = prefill(3, 40, 1);
  rows.push_back({0, 70, 0, 20});
  rows.push_back({0, 3, 2, 0});
  rows.push_back({0, 66, 2, 65});
  Choice choice = make_choice(CacheType::f32, 6, 20, 9, rows);
  check(choice);
  Choice paged = choice;
  give_pages(paged.c);
  check(paged);
  Choice beams = choice;
  share_earlier_positions(beams.c, 3, 72);
  for (Row& row : beams.c.rows) row.first = 0;
  share_earlier_positions(beams.c, 3, 72);
  check(beams);
  Choice by_sequences = choice;
  by_sequences.c.layout.split = CacheSplit::sequences;
  by_sequences.c.layout.part_size = 2;
  check(by_sequences);
  Choice by_positions = make_choice(CacheType::f16, 6, 20, 90, prefill(2, 600));
  by_positions.c.layout.capacity = 768;
  by_positions.c.layout.split = CacheSplit::positions;
  by_positions.c.layout.part_size = 256;
  check(by_positions);
}

// Types take turns; a long run has all.
TEST_CASE("attention to chosen positions") {
  for (const CacheType type : turn_of(all_types, 1)) {
    Case c = make_case(type, 4, 1, 40, prefill(5, 300));
    c.layout.values_are_keys = true;
    c.options.chosen = third;
    check(c, 3e-6, true);
  }
  Case grouped = make_case(CacheType::f32, 4, 2, 24, prefill(6, 1000));
  grouped.options.chosen = sparse;
  grouped.capacity = 8;
  check(grouped);
  Case parts = make_case(CacheType::f32, 2, 1, 24, prefill(3, 600));
  parts.layout.capacity = 768;
  parts.layout.split = CacheSplit::positions;
  parts.layout.part_size = 256;
  parts.options.chosen = third;
  check(parts);
  for (const DeviceProfile& profile : profiles_to_test()) check_pages(profile, grouped, true);
}
