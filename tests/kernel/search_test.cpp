// The best continuations of beams against a plain reference: every rule, with awkward sizes, ties and
// infinities.
#include "kernel/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "kernel/products/rows.h"
#include "shaders/common/step.h"

using namespace pumice;

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

struct Found {
  uint32_t beam = 0, token = 0;
  double score = 0;
};

struct Beam {
  std::vector<float> logits;
  float score = 0;
  SearchRules rules;
};

// The beams of one input.
struct Beams {
  std::vector<Beam> beams;
  uint32_t wanted = 0;
};

double log_sum(std::span<const double> scores) {
  const double largest = *std::ranges::max_element(scores);
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (double score : scores) sum += std::exp(score - largest);
  return largest + std::log(sum);
}

void softmax(std::vector<double>& scores) {
  const double sum = log_sum(scores);
  if (std::isinf(sum)) return;
  for (double& score : scores) score -= sum;
}

void apply(const SearchRules& rules, std::vector<double>& scores) {
  for (uint32_t token : rules.penalised) {
    scores[token] = scores[token] < 0 ? scores[token] * rules.penalty : scores[token] / rules.penalty;
  }
  for (uint32_t token : rules.forbidden) scores[token] = minus_infinity;
  for (const TokenRange& range : rules.forbidden_ranges) {
    for (size_t token = range.first; token < std::min<size_t>(range.end, scores.size()); ++token) {
      scores[token] = minus_infinity;
    }
  }
  if (rules.first_timestamp && *rules.first_timestamp < scores.size()) {
    const auto text = std::span(scores).first(*rules.first_timestamp);
    const auto times = std::span(scores).subspan(*rules.first_timestamp);
    const double likeliest = text.empty() ? minus_infinity : *std::ranges::max_element(text);
    if (log_sum(times) > likeliest) std::ranges::fill(text, minus_infinity);
  }
}

std::vector<Found> reference(const Beams& search) {
  std::vector<Found> all;
  for (uint32_t b = 0; b < search.beams.size(); ++b) {
    const Beam& beam = search.beams[b];
    std::vector<double> scores;
    for (float logit : beam.logits) scores.push_back(std::isnan(logit) ? minus_infinity : logit);
    if (beam.rules.after_softmax) softmax(scores);
    if (beam.rules.forced) {
      std::ranges::fill(scores, minus_infinity);
      scores[*beam.rules.forced] = 0;
    } else {
      apply(beam.rules, scores);
    }
    if (!beam.rules.after_softmax) softmax(scores);
    for (uint32_t token = 0; token < scores.size(); ++token) {
      if (!std::isinf(scores[token])) all.push_back({b, token, beam.score + scores[token]});
    }
  }
  std::ranges::stable_sort(all, [](const Found& x, const Found& y) { return x.score > y.score; });
  all.resize(std::min<size_t>(all.size(), search.wanted));
  return all;
}

// Runs all searches in one step; the outputs name the step's rows in a mixed order.
void check(const DeviceProfile& profile, const std::vector<Beams>& searches, uint32_t candidates) {
  CAPTURE(profile.workgroup);
  TestGpu& gpu = TestGpu::get();
  const uint32_t vocabulary = static_cast<uint32_t>(searches[0].beams[0].logits.size());
  CAPTURE(vocabulary);
  std::vector<const Beam*> beams;
  for (const Beams& search : searches) {
    for (const Beam& beam : search.beams) beams.push_back(&beam);
  }
  const uint32_t outputs = static_cast<uint32_t>(beams.size()), capacity = outputs + 3,
                 sequences = outputs + 2;
  const uint32_t stride = (vocabulary + 31) / 32 * 32 + 32;
  std::vector<float> logits(size_t{outputs + 1} * stride, 1e9f); // what nothing may look at
  std::vector<uint32_t> block((STEP_HEADER_QUADS + 2 * size_t{capacity}) * 4);
  block[0] = outputs + 1;
  block[1] = outputs;
  std::vector<std::byte> memory(SearchState::bytes(sequences), std::byte{0xff});
  SearchState state(memory);
  uint32_t output = 0;
  for (const Beams& search : searches) {
    for (uint32_t b = 0; b < search.beams.size(); ++b, ++output) {
      const uint32_t row = outputs - output, sequence = (output * 7 + 1) % sequences;
      std::ranges::copy(search.beams[b].logits,
                        logits.begin() + static_cast<ptrdiff_t>(size_t{output} * stride));
      block[(STEP_HEADER_QUADS + row) * 4 + 2] = sequence;
      block[(STEP_HEADER_QUADS + capacity + output) * 4] = row;
      state.set(sequence, search.beams[b].score, b == 0 ? static_cast<uint32_t>(search.beams.size()) : 0,
                search.wanted, search.beams[b].rules);
    }
  }
  SearchArgs args;
  args.logits = {gpu.upload(logits), outputs + 1, ROWS_OUTPUTS, vocabulary, stride};
  args.result = blank_rows(outputs + 1, SEARCH_RESULT_COLUMNS * candidates, 32, ROWS_OUTPUTS);
  args.candidates = candidates;
  args.state = gpu.upload(memory);
  args.step = gpu.upload(block);
  args.step_capacity = capacity;
  args.scratch = gpu.upload(
      std::vector<uint32_t>(search_scratch_bytes(profile, args.logits, candidates) / 4, 0xdeadbeefu));
  std::vector<Dispatch> dispatches;
  for (Dispatch& each : search(profile, args)) dispatches.push_back(std::move(each));
  gpu.run(dispatches);
  const std::vector<float> result = gpu.read<float>(args.result.buffer);
  output = 0;
  for (const Beams& search : searches) {
    const std::vector<Found> expected = reference(search);
    const float* row = result.data() + size_t{output} * args.result.stride;
    for (uint32_t n = 0; n < candidates; ++n, row += SEARCH_RESULT_COLUMNS) {
      CAPTURE(n);
      if (n >= expected.size()) {
        CHECK(row[2] == minus_infinity);
        continue;
      }
      CHECK(row[2] == doctest::Approx(expected[n].score).epsilon(1e-5));
      CHECK(static_cast<uint32_t>(row[0]) == expected[n].beam);
      CHECK(static_cast<uint32_t>(row[1]) == expected[n].token);
    }
    output += static_cast<uint32_t>(search.beams.size());
  }
  CHECK(result[size_t{outputs} * args.result.stride] == sentinel); // the row that is no output
  gpu.clear();
}

Beams random_search(uint32_t vocabulary, uint32_t count, uint32_t seed, const SearchRules& rules = {}) {
  Beams search;
  for (uint32_t b = 0; b < count; ++b) {
    search.beams.push_back({random_values(vocabulary, seed + b, 12), -0.5f * static_cast<float>(b), rules});
  }
  search.wanted = 2 * count;
  return search;
}

SearchRules some_rules(uint32_t vocabulary, bool after_softmax) {
  SearchRules rules;
  rules.after_softmax = after_softmax;
  for (uint32_t token = 3; token < vocabulary; token += 5) rules.forbidden.push_back(token);
  for (uint32_t token = 4; token < vocabulary; token += 5) rules.penalised.push_back(token);
  rules.penalty = 1.7f;
  return rules;
}

} // namespace

TEST_CASE("the best continuations of beams, with and without rules") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const uint32_t vocabulary : {1u, 2u, 31u, 33u, 320u, 1027u, 5000u}) {
      check(profile, {random_search(vocabulary, 1, 1)}, 2);
      check(profile,
            {random_search(vocabulary, 4, 2), random_search(vocabulary, 1, 9),
             random_search(vocabulary, 3, 20)},
            8);
      for (const bool after : {false, true}) {
        check(profile, {random_search(vocabulary, 3, 5, some_rules(vocabulary, after))}, 9);
      }
    }
    check(profile, {random_search(700, 64, 3)}, SEARCH_CANDIDATES);
  }
}

TEST_CASE("forced tokens, ranges and timestamps in a search") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const bool after : {false, true}) {
      SearchRules forced, ranges, times;
      forced.after_softmax = ranges.after_softmax = times.after_softmax = after;
      forced.forced = 40;
      ranges.forbidden_ranges = {{0, 7}, {30, 100}, {290, 1000}, {150, 150}};
      times.first_timestamp = 205;
      times.forbidden_ranges = {{250, 400}};
      Beams mixed = random_search(300, 4, 30, ranges);
      mixed.beams[1].rules = forced;
      mixed.beams[2].rules = times;
      check(profile, {random_search(300, 2, 40, times), mixed}, 8);
      Beams likely = random_search(300, 2, 50, times); // the times together are the likeliest
      for (Beam& beam : likely.beams) {
        for (uint32_t token = 0; token < 205; ++token) beam.logits[token] -= 20;
      }
      check(profile, {likely}, 8);
      for (Beam& beam : likely.beams) {
        for (uint32_t token = 0; token < 205; ++token) beam.logits[token] += 40;
      }
      check(profile, {likely}, 8);
      times.forbidden_ranges = {{205, 300}}; // no time may come
      check(profile, {random_search(300, 1, 60, times)}, 4);
    }
  }
}

TEST_CASE("equal logits, infinities and NaN in a search") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Beams search = random_search(100, 3, 70);
    search.beams[0].logits.assign(100, 1.0f);
    search.beams[1].logits.assign(100, minus_infinity);
    search.beams[1].logits[77] = 2;
    search.beams[2].logits[5] = std::nanf("");
    search.beams[2].logits[6] = minus_infinity;
    check(profile, {search}, 6);
    for (Beam& beam : search.beams) beam.logits.assign(100, minus_infinity);
    check(profile, {search}, 6);
  }
}
