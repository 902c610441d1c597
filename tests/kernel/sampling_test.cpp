#include "kernel/sampling/sampling.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "kernel/lowering.h"
#include "kernel/sampling_batch.h"
#include "kernel/sampling_reference.h"
#include "support/in_turn.h"

using namespace pumice;

namespace {

// What Sample asks of a plan, and nothing else.
struct SampleLowering : Lowering {
  const DeviceProfile& profile() const override { return chosen; }
  const Graph& graph() const override { return model; }
  ActivationRef tensor(TensorId) const override { return {{}, 2, ROWS_OUTPUTS, 1000, 1024}; }
  Result<PackedWeight> matrix(std::span<const WeightId>, bool) override { return Error{}; }
  Result<PackedWeight> expert_matrix(std::span<const WeightId>, bool) override { return Error{}; }
  Result<BufferRef> vector(std::span<const WeightId>, bool) override { return Error{}; }
  Result<BufferRef> constants(const std::string&, std::span<const float>) override { return Error{}; }
  CacheRef cache(uint32_t) override { return {}; }
  StateRef state(uint32_t) override { return {}; }
  BufferRef step() const override { return {Space::step, 0, 0, 16 * 9}; }
  uint32_t context() const override { return 1; }
  const StepLayout& step_layout() const override { return step_layout_; }
  BufferRef counters() override { return {}; }
  BufferRef sampling() const override { return {Space::results, 0, 0, SamplingState::bytes(3)}; }
  BufferRef temporary(uint64_t bytes) override { return {Space::scratch, 0, 256, bytes}; }
  void emit(Dispatch dispatch) override { emitted.push_back(std::move(dispatch)); }

  StepLayout step_layout_{4, 3, 0};
  DeviceProfile chosen;
  Graph model;
  std::vector<Dispatch> emitted;
};

} // namespace

TEST_CASE("greedy choice is the largest logit with the lowest id") {
  size_t turn = 0;
  for (const DeviceProfile& profile : profiles_to_test()) {
    std::vector<uint32_t> vocabularies = {1, 2, 5, 31, 32, 33, 1000, 32000};
    for (uint32_t large : turn_of(std::array{262145u, 128256u}, turn++)) vocabularies.push_back(large);
    for (uint32_t vocabulary : vocabularies) {
      CAPTURE(vocabulary);
      Batch batch;
      for (const std::vector<float>& logits : awkward_logits(vocabulary)) batch.add(logits, {});
      const std::vector<uint32_t> tokens = sample_once(profile, batch);
      for (size_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        CHECK(tokens[j] == reference_sample(batch.logits[j], {}, 1).token);
      }
    }
  }
}

TEST_CASE("drawing copes with any logits") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {1u, 2u, 5u, 31u, 32u, 33u, 1000u}) {
      CAPTURE(vocabulary);
      for (const SamplingParams& filter : reference_filters()) {
        Batch batch;
        for (const std::vector<float>& logits : awkward_logits(vocabulary)) batch.add(logits, filter);
        const std::vector<uint32_t> tokens = sample_once(profile, batch);
        for (size_t j = 0; j < tokens.size(); ++j) {
          CAPTURE(j);
          const ReferenceChoice choice = reference_sample(batch.logits[j], filter, 1);
          CHECK(std::count(choice.allowed.begin(), choice.allowed.end(), tokens[j]) == 1);
        }
      }
    }
  }
}

TEST_CASE("a token in the window is penalised once") {
  SamplingParams params;
  params.repeat_penalty = 1.5f;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {5u, 33u, 1000u, 32000u}) {
      CAPTURE(vocabulary);
      Batch batch;
      for (uint32_t window : {0u, 1u, 2u, 64u, 256u, 1000u}) {
        std::vector<float> logits = random_logits(vocabulary, window);
        if (window % 2) {
          for (float& v : logits) v -= 30.0f;
        }
        // The largest ones, some of them again and again, a few that no vocabulary has, the very largest
        // first.
        std::vector<uint32_t> order(vocabulary);
        for (uint32_t i = 0; i < vocabulary; ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
        std::vector<uint32_t> history;
        for (uint32_t i = 0; i < 300; ++i) history.push_back(order[i % std::min(vocabulary, 90u)]);
        history.insert(history.end(), {vocabulary, 0xffffffffu, order[0], order[0]});
        params.repeat_window = window;
        batch.add(logits, params, history);
      }
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      const std::vector<float> left = TestGpu::get().read<float>(sampler.logits);
      for (uint32_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        params = batch.params[j];
        params.repeat_window = std::min(params.repeat_window, SAMPLING_RING);
        std::vector<float> logits = batch.logits[j];
        reference_penalise(logits, params, batch.histories[j]);
        CHECK(tokens[j] == reference_sample(logits, params, 1).token);
        CHECK(std::equal(logits.begin(), logits.end(), left.begin() + j * sampler.stride));
      }
      TestGpu::get().clear();
    }
  }
}

TEST_CASE("each time a token occurs in the window costs it the frequency penalty") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {1u, 31u, 33u, 1000u, 128256u}) {
      CAPTURE(vocabulary);
      Batch batch;
      for (uint32_t window : {1u, 7u, 300u, SAMPLING_RING, SAMPLING_RING + 1}) {
        SamplingParams params;
        params.repeat_window = window;
        params.frequency_penalty = window % 2 ? 0.25f : -0.01f;
        params.presence_penalty = window == 300 ? 0.0f : 1.5f;
        params.repeat_penalty = window == 7 ? 1.3f : 1.0f;
        std::vector<uint32_t> history(5000);
        for (uint32_t i = 0; i < history.size(); ++i) history[i] = i * i % std::min(vocabulary + 1, 900u);
        batch.add(random_logits(vocabulary, window), params, history);
      }
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      const std::vector<float> left = TestGpu::get().read<float>(sampler.logits);
      for (uint32_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        SamplingParams params = batch.params[j];
        params.repeat_window = std::min(params.repeat_window, SAMPLING_RING);
        std::vector<float> logits = batch.logits[j];
        reference_penalise(logits, params, batch.histories[j]);
        float difference = 0;
        for (uint32_t id = 0; id < vocabulary; ++id) {
          difference = std::max(difference, std::abs(left[j * sampler.stride + id] - logits[id]));
        }
        CHECK(difference < 1e-4f);
        CHECK(tokens[j] == reference_sample(logits, {}, 1).token);
      }
      TestGpu::get().clear();
    }
  }
}

TEST_CASE("biases are added before everything else, and minus infinity forbids") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {1u, 31u, 33u, 3000u, 128256u}) {
      CAPTURE(vocabulary);
      Batch batch;
      for (uint32_t count : {1u, 2u, 256u, SAMPLING_BIASES}) {
        SamplingParams params;
        std::vector<float> logits = random_logits(vocabulary, count);
        // The largest are forbidden, which is to hold against infinity and NaN too; others are moved.
        std::vector<uint32_t> order(vocabulary);
        for (uint32_t i = 0; i < vocabulary; ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
        logits[order[0]] = count == 2 ? NAN : INFINITY;
        for (uint32_t i = 0; i + 1 < std::min(count, vocabulary); ++i) {
          params.logit_biases.push_back(
              {order[i], i < count / 2 ? -INFINITY : 0.125f * static_cast<float>(i % 7)});
        }
        params.logit_biases.push_back({vocabulary, 1000.0f}); // no such token
        params.repeat_penalty = 1.5f;
        batch.add(logits, params, {order[0], order.back()});
      }
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      const std::vector<float> left = TestGpu::get().read<float>(sampler.logits);
      for (uint32_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        std::vector<float> logits = batch.logits[j];
        reference_penalise(logits, batch.params[j], batch.histories[j]);
        CHECK(tokens[j] == reference_sample(logits, {}, 1).token);
        uint32_t wrong = 0;
        for (uint32_t id = 0; id < vocabulary; ++id) {
          const float found = left[j * sampler.stride + id];
          wrong += !(found == logits[id] || (std::isnan(found) && std::isnan(logits[id])));
        }
        CHECK(wrong == 0);
      }
      TestGpu::get().clear();
    }
  }
}

TEST_CASE("rows that are guessed at are sampled as if the guesses were the text") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    const uint32_t vocabulary = 1000;
    SamplingParams params = drawing(3, 1.0f);
    params.repeat_window = 64;
    params.repeat_penalty = 1.4f;
    params.frequency_penalty = 0.5f;
    params.log_probabilities = 2;
    const std::vector<uint32_t> history(70, 11), drafts = {5, 6, 5, 7};
    Batch together, apart;
    together.params = {params, params};
    together.histories = {{1, 2}, history}; // the first sequence has a row of its own
    together.drafts = {{}, drafts};
    for (uint32_t j = 0; j <= 1 + drafts.size(); ++j) {
      const uint32_t before = j == 0 ? 0 : j - 1, sequence = j == 0 ? 0 : 1;
      std::vector<uint32_t> text = together.histories[sequence];
      text.insert(text.end(), drafts.begin(), drafts.begin() + before);
      const auto position = static_cast<uint32_t>(text.size()) - 1;
      const std::vector<float> logits = random_logits(vocabulary, 40 + j);
      apart.add(logits, params, text, position);
      together.logits.push_back(logits);
      together.rows.push_back({0, position, sequence, 0});
      together.output_rows.push_back(j);
      together.drafts_before.push_back(before);
    }
    together.capacity = apart.capacity;
    Sampler one(profile, together), each(profile, apart);
    one.run();
    each.run();
    const auto slots = TestGpu::get().read<SamplingSlot>(one.state);
    const auto expected = TestGpu::get().read<SamplingSlot>(each.state);
    for (uint32_t j = 0; j < apart.logits.size(); ++j) {
      CAPTURE(j);
      const uint32_t n = static_cast<uint32_t>(apart.histories[j].size());
      const SamplingSlot& slot = slots[j == 0 ? 0 : 1];
      CHECK(slot.tokens[n % SAMPLING_RING] == expected[j].tokens[n % SAMPLING_RING]);
      const SamplingReport &found = slot.reports[n % SAMPLING_REPORTS],
                           &wanted = expected[j].reports[n % SAMPLING_REPORTS];
      CHECK(found.log_probability == wanted.log_probability);
      CHECK(found.tokens[1] == wanted.tokens[1]);
    }
    TestGpu::get().clear();
  }
}

TEST_CASE("what was sampled behind a guess that did not hold is forgotten") {
  std::vector<SamplingSlot> slots(1);
  SamplingState state(std::as_writable_bytes(std::span(slots)));
  state.set_params(0, {});
  state.set_tokens(0, std::vector<uint32_t>{4, 5});
  state.set_drafts(0, std::vector<uint32_t>{6, 7});
  CHECK(state.count(0) == 2);
  CHECK(state.token(0, 3) == 7);
  slots[0].count = 5;
  slots[0].finished_at = 4;
  state.set_count(0, 4);
  CHECK(state.count(0) == 4);
  CHECK(!state.finished_at(0));
  slots[0].finished_at = 3;
  state.set_count(0, 4);
  CHECK(state.finished_at(0) == 3);
}

TEST_CASE("top-k of 1 is the greedy choice") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    for (uint32_t seed = 0; seed < 16; ++seed) {
      SamplingParams params = drawing(seed, 2.0f);
      params.top_k = 1;
      batch.add(random_logits(5000, seed), params, {}, seed);
    }
    const std::vector<uint32_t> tokens = sample_once(profile, batch);
    for (uint32_t j = 0; j < tokens.size(); ++j) {
      CHECK(tokens[j] == reference_sample(batch.logits[j], {}, j + 1).token);
    }
  }
}

TEST_CASE("draws are the reference's") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    int same = 0, all = 0;
    const std::vector<SamplingParams> all_filters = reference_filters();
    for (uint32_t vocabulary : {50u, 1000u, 32000u, 128256u}) {
      for (const SamplingParams& filter : all_filters) {
        // Over all of a large vocabulary, only these have an upper limit on their work.
        const bool limited = filter.typical_p < 1.0f || filter.top_n_sigma > 0.0f || filter.mirostat;
        if (vocabulary > 100000 && (!limited || filter.order)) continue;
        CAPTURE(vocabulary);
        CAPTURE(&filter - all_filters.data());
        Batch batch;
        const uint32_t draws = vocabulary > 1000 ? 4 : 48;
        for (uint32_t seed = 0; seed < draws; ++seed) {
          SamplingParams params = filter;
          params.seed = 0x9e3779b97f4a7c15ull * (seed + 1);
          batch.add(random_logits(vocabulary, seed), params, {}, 3 * seed);
        }
        const std::vector<uint32_t> tokens = sample_once(profile, batch);
        for (size_t j = 0; j < tokens.size(); ++j) {
          const uint32_t position = batch.rows[j][1] + 1;
          same += tokens[j] == reference_sample(batch.logits[j], batch.params[j], position).token;
          ++all;
          SamplingParams wider = batch.params[j];
          reference_widen(wider);
          const ReferenceChoice choice = reference_sample(batch.logits[j], wider, position);
          CHECK(std::binary_search(choice.allowed.begin(), choice.allowed.end(), tokens[j]));
        }
      }
    }
    MESSAGE(same << " of " << all << " draws are the reference's");
    CHECK(same >= 0.99 * all);
  }
}

TEST_CASE("tokens are drawn as often as the distribution has it" * doctest::test_suite("rest")) {
  const std::vector<float> logits = random_logits(20, 7, 0.8f);
  const uint32_t rows = 500, runs = 8;
  std::vector<SamplingParams> cases(3, drawing(0, 1.3f));
  cases[1].top_k = 7;
  cases[2].top_p = 0.8f;
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const SamplingParams& filter : cases) {
      Batch batch;
      for (uint32_t row = 0; row < rows; ++row) {
        SamplingParams params = filter;
        params.seed = row;
        batch.add(logits, params, {}, 100);
      }
      Sampler sampler(profile, batch);
      sampler.run(runs);
      std::vector<double> counts(logits.size());
      for (const SamplingSlot& slot : sampler.slots()) {
        REQUIRE(slot.count == runs);
        for (uint32_t n = 0; n < runs; ++n) counts.at(slot.tokens[n]) += 1;
      }
      TestGpu::get().clear();

      const ReferenceChoice choice = reference_sample(logits, filter, 1);
      double total = 0, square = 0, seen = 0;
      for (uint32_t id : choice.allowed) total += std::exp(double{logits[id]} / filter.temperature);
      for (uint32_t id : choice.allowed) {
        const double expected = rows * runs * std::exp(double{logits[id]} / filter.temperature) / total;
        square += (counts[id] - expected) * (counts[id] - expected) / expected;
        seen += counts[id];
      }
      CHECK(seen == rows * runs);
      // Chi-square has mean d and variance 2d; four deviations are far out in its tail.
      const double freedom = static_cast<double>(choice.allowed.size()) - 1;
      MESSAGE("chi-square " << square << " with " << freedom << " degrees of freedom");
      CHECK(square < freedom + 4 * std::sqrt(2 * freedom));
    }
  }
}

TEST_CASE("a draw depends on seed and position, not on the batch or the profile") {
  const std::vector<float> logits = random_logits(3000, 1);
  std::vector<uint32_t> first;
  for (const SamplingParams& filter : reference_filters()) {
    SamplingParams params = filter;
    params.seed = 42;
    Batch alone;
    alone.add(logits, params, {}, 9);
    Batch among;
    for (uint32_t j = 0; j < 5; ++j) among.add(random_logits(3000, 100 + j), drawing(j), {}, j);
    among.add(logits, params, {}, 9);
    among.add(random_logits(3000, 99), {}, {}, 9);
    std::swap(among.output_rows[1], among.output_rows[5]);
    std::swap(among.logits[1], among.logits[5]);
    uint32_t expected = 0xffffffffu;
    for (const DeviceProfile& profile : profiles_to_test()) {
      const uint32_t token = sample_once(profile, alone)[0];
      if (expected == 0xffffffffu) expected = token;
      CHECK(token == expected);
      CHECK(sample_once(profile, alone)[0] == expected);
      CHECK(sample_once(profile, among)[1] == expected);
    }
    first.push_back(expected);
  }

  // Other seeds and positions give other draws.
  Batch batch;
  for (uint32_t j = 0; j < 20; ++j) batch.add(logits, drawing(j < 10 ? j : 0, 2.0f), {}, j < 10 ? 0 : j);
  std::vector<uint32_t> tokens = sample_once(TestGpu::get().profile, batch);
  std::sort(tokens.begin(), tokens.end());
  CHECK(std::unique(tokens.begin(), tokens.end()) - tokens.begin() >= 15);
}

TEST_CASE("the step block becomes the next step's") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    for (uint32_t j = 0; j < 3; ++j) batch.logits.push_back(random_logits(300, j));
    batch.params.resize(5);
    batch.histories.resize(5, {1, 2, 3});
    batch.rows = {{10, 7, 4, 0}, {11, 20, 2, 3}, {12, 21, 2, 3}, {13, 5, 1, 2}};
    batch.output_rows = {2, 0, 3}; // each is overwritten by another's output
    batch.capacity = 6;
    batch.produced = 8;
    Sampler sampler(profile, batch);
    const std::vector<Quad> before = sampler.block();
    sampler.run();
    const std::vector<Quad> after = sampler.block();
    const std::vector<SamplingSlot> slots = sampler.slots();
    TestGpu::get().clear();

    std::vector<Quad> expected = before;
    expected[0] = {3, 3, 9, 5};
    for (uint32_t j = 0; j < 3; ++j) {
      const Quad& row = batch.rows[batch.output_rows[j]];
      const uint32_t token = reference_sample(batch.logits[j], {}, 0).token;
      expected[1 + j] = {token, row[1] + 1, row[2], row[3]};
      expected[1 + 6 + j] = {j, 0, 0, 0};
      CHECK(slots[row[2]].count == 4);
      CHECK(slots[row[2]].tokens[3] == token);
    }
    CHECK(after == expected);
    CHECK(slots[0].count == 3);
    CHECK(slots[3].count == 3);
  }
}

TEST_CASE("without outputs nothing is touched") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    SamplingParams params = drawing(1);
    params.repeat_penalty = 2.0f;
    for (uint32_t j = 0; j < 3; ++j) batch.add(random_logits(300, j), params, {1, 2, 3});
    batch.output_rows.clear();
    Sampler sampler(profile, batch);
    TestGpu& gpu = TestGpu::get();
    const std::vector<std::vector<std::byte>> before = {gpu.read<std::byte>(sampler.step),
                                                        gpu.read<std::byte>(sampler.state),
                                                        gpu.read<std::byte>(sampler.logits)};
    sampler.run(2);
    CHECK(gpu.read<std::byte>(sampler.step) == before[0]);
    CHECK(gpu.read<std::byte>(sampler.state) == before[1]);
    CHECK(gpu.read<std::byte>(sampler.logits) == before[2]);
    gpu.clear();
  }
}

TEST_CASE("steps follow each other without the host") {
  const uint32_t steps = 5;
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    for (uint32_t j = 0; j < 4; ++j) {
      SamplingParams params = drawing(j, j == 0 ? 0.0f : 0.9f);
      params.repeat_penalty = 1.3f;
      params.repeat_window = 3 + j;
      params.top_k = 10 * j;
      // Two that go round the ring's end, one of them with its window across it.
      std::vector<uint32_t> history(j < 2 ? 6 : SAMPLING_RING - 5 + 3 * j);
      for (uint32_t i = 0; i < history.size(); ++i) history[i] = i * 7 % 500;
      batch.add(random_logits(500, j), params, history, 50 * j);
    }
    Sampler sampler(profile, batch);
    sampler.run(static_cast<int>(steps));
    const std::vector<Quad> block = sampler.block();
    std::vector<SamplingSlot> slots = sampler.slots();
    TestGpu::get().clear();
    const SamplingState state(std::as_writable_bytes(std::span(slots)));

    CHECK(block[0] == Quad{4, 4, steps, 5});
    for (uint32_t j = 0; j < 4; ++j) {
      CAPTURE(j);
      std::vector<uint32_t>& history = batch.histories[j];
      REQUIRE(state.count(j) == history.size() + steps);
      for (uint32_t n = 1; n <= steps; ++n) {
        // Nothing writes fresh logits here, so penalties add up.
        reference_penalise(batch.logits[j], batch.params[j], history);
        const uint32_t token = reference_sample(batch.logits[j], batch.params[j], 50 * j + n).token;
        CHECK(state.token(j, static_cast<uint32_t>(history.size())) == token);
        history.push_back(token);
      }
      CHECK(block[1 + j] == Quad{history.back(), 50 * j + steps, j, 0});
      for (uint32_t n = state.count(j) - std::min(state.count(j), 4000u); n < state.count(j); ++n) {
        REQUIRE(state.token(j, n) == history[n]);
      }
    }
  }
}

TEST_CASE("a token that goes on with a repetition costs more the longer it is") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {9u, 33u, 1000u, 32000u}) {
      CAPTURE(vocabulary);
      Batch batch;
      for (uint32_t j = 0; j < 8; ++j) {
        SamplingParams params;
        params.dry_multiplier = 0.8f;
        params.dry_base = j == 1 ? 1.0f : 1.75f;
        params.dry_allowed_length = 1 + j % 3;
        if (j == 2) params.dry_penalty_last_n = 20;
        if (j == 3) params.dry_breakers = {1, 5};
        if (j >= 4) params.repeat_penalty = 1.2f, params.frequency_penalty = 0.3f;
        if (j == 5) params.repeat_window = 3;
        // Few different tokens repeat themselves often; all of one kind are one long repetition.
        std::vector<uint32_t> history(j == 6 ? SAMPLING_RING + 100 : 60 + j);
        for (uint32_t i = 0; i < history.size(); ++i)
          history[i] = j == 7 ? 3 : (i * i + i / 3) % (2 + j) + (i % 11 == 0 ? 3 : 0);
        batch.add(random_logits(vocabulary, j), params, history);
      }
      batch.add(random_logits(vocabulary, 8), batch.params[0]); // nothing to repeat
      batch.add(random_logits(vocabulary, 9), batch.params[0], {4});
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<float> left = TestGpu::get().read<float>(sampler.logits);
      TestGpu::get().clear();
      for (uint32_t j = 0; j < batch.params.size(); ++j) {
        CAPTURE(j);
        std::vector<float> logits = batch.logits[j];
        reference_penalise(logits, batch.params[j], batch.histories[j]);
        for (uint32_t id = 0; id < vocabulary; ++id)
          REQUIRE(left[j * sampler.stride + id] == doctest::Approx(logits[id]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("what mirostat has learnt and where repetitions begin go from step to step") {
  constexpr uint32_t steps = 6, vocabulary = 300;
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    SamplingParams params = drawing(11, 1.2f);
    params.mirostat = 2;
    params.mirostat_tau = 3.0f;
    params.mirostat_eta = 0.5f;
    batch.add(random_logits(vocabulary, 1), params, {7, 8});
    params = drawing(12, 0.7f);
    params.dry_multiplier = 2.0f;
    for (uint32_t token = 0; token < vocabulary; token += 2) params.dry_breakers.push_back(token);
    batch.add(random_logits(vocabulary, 2, 1.0f), params, {1, 3, 4, 1, 3});
    Sampler sampler(profile, batch);
    sampler.run(steps);
    std::vector<SamplingSlot> slots = sampler.slots();
    TestGpu::get().clear();
    const SamplingState state(std::as_writable_bytes(std::span(slots)));
    double mu = 2 * 3.0;
    for (uint32_t n = 2; n < 2 + steps; ++n)
      mu = reference_mirostat(batch.logits[0], batch.params[0], mu, state.token(0, n));
    CHECK(slots[0].mirostat_mu == doctest::Approx(mu).epsilon(1e-4));
    uint32_t first = 3;
    for (uint32_t n = 5; n < 5 + steps; ++n) {
      if (state.token(1, n) % 2 == 0) first = n + 1;
    }
    CHECK(slots[1].dry_first == first);
  }
}

TEST_CASE("parameters out of range are brought into it") {
  std::vector<SamplingSlot> slots(2);
  SamplingState state(std::as_writable_bytes(std::span(slots)));
  CHECK(state.sequences() == 2);
  SamplingParams params;
  params.temperature = NAN;
  params.top_p = NAN;
  params.min_p = 7.0f;
  params.repeat_penalty = 0.0f;
  params.repeat_window = 100000;
  params.seed = 0x123456789abcdef0;
  state.set_params(1, params);
  CHECK(slots[1].temperature == 0.0f);
  CHECK(slots[1].top_p == 1.0f);
  CHECK(slots[1].log_min_p == 0.0f);
  CHECK(std::isfinite(slots[1].inverse_repeat_penalty));
  CHECK(slots[1].repeat_window == SAMPLING_RING);
  CHECK(slots[1].seed_low == 0x9abcdef0);
  CHECK(slots[1].seed_high == 0x12345678);
  params.temperature = 1e-30f;
  state.set_params(1, params);
  CHECK(std::isfinite(slots[1].inverse_temperature));

  state.set_tokens(0, std::vector<uint32_t>{4, 5});
  CHECK(state.count(0) == 2);
  CHECK(state.token(0, 1) == 5);
}

TEST_CASE("sampling is a node of the graph and two launches of a plan") {
  SampleLowering lowering;
  const TensorId logits = lowering.model.add_tensor({"logits", RowKind::outputs, 1000});
  const TensorId token = sample(lowering.model, "token", logits);
  CHECK(lowering.model.tensor(token).rows == RowKind::outputs);
  const Node& node = lowering.model.nodes().back();
  CHECK(node.operation->name() == "sample");
  CHECK(node.operation->lower(lowering, node).ok());
  REQUIRE(lowering.emitted.size() == 2);
  CHECK(lowering.emitted[0].kernel == "sample_scan");
  CHECK(lowering.emitted[1].kernel == "sample_pick");
  SampleParams params;
  std::memcpy(&params, lowering.emitted[1].params.data(), sizeof(params));
  CHECK(params.vocabulary == 1000);
  CHECK(params.stride == 1024);
  CHECK(params.sequences == 3);
  CHECK(params.capacity == 4);
}

TEST_CASE("a mask leaves the tokens whose bits are set, whatever the other options are") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {33u, 1000u, 32001u}) {
      CAPTURE(vocabulary);
      Batch batch;
      std::mt19937 random(5);
      for (uint32_t seed = 0; seed < 12; ++seed) {
        SamplingParams params;
        params.temperature = seed % 3 ? 1.0f : 0.0f;
        params.top_k = seed % 4 == 1 ? 5 : 0;
        params.top_p = seed % 4 == 2 ? 0.8f : 1.0f;
        params.repeat_penalty = seed % 2 ? 1.5f : 1.0f;
        params.seed = seed;
        batch.add(random_logits(vocabulary, seed), params, {1, 2, 3});
        std::vector<uint32_t> mask((vocabulary + 31) / 32);
        for (uint32_t count = 0; count < 3; ++count) {
          const uint32_t token = random() % vocabulary;
          mask[token / 32] |= 1u << token % 32;
        }
        if (seed % 5 == 4) mask.clear(); // one without a mask beside the others
        batch.masks.push_back(mask);
      }
      const std::vector<uint32_t> tokens = sample_once(profile, batch);
      Batch biased = batch; // the same by biases, where there are few enough tokens
      biased.masks.clear();
      for (size_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        if (batch.masks[j].empty()) continue;
        CHECK((batch.masks[j][tokens[j] / 32] >> tokens[j] % 32 & 1) == 1);
        for (uint32_t token = 0; token < vocabulary; ++token) {
          if ((batch.masks[j][token / 32] >> token % 32 & 1) == 0)
            biased.params[j].logit_biases.push_back({token, -std::numeric_limits<float>::infinity()});
        }
      }
      if (vocabulary <= SAMPLING_BIASES) CHECK(sample_once(profile, biased) == tokens);
    }
  }
}

TEST_CASE("a form's table leaves the tokens of a mask, and a step leads to the next place") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {33u, 1000u, 32001u}) {
      CAPTURE(vocabulary);
      std::mt19937 random(vocabulary);
      FormTable table;
      table.class_count = 40;
      for (uint32_t token = 0; token < vocabulary; ++token)
        table.classes.push_back(static_cast<uint16_t>(random() % 3 ? 0 : random() % table.class_count));
      for (uint32_t place = 0; place < 30; ++place) {
        std::vector<FormTable::Step>& steps = table.places.emplace_back();
        for (uint16_t each = 1; each < table.class_count; ++each) {
          if (random() % 8 == 0 || each == place + 1)
            steps.push_back({each, static_cast<uint16_t>(random() % 30)});
        }
      }
      Batch batch;
      for (uint32_t seed = 0; seed < 12; ++seed) {
        SamplingParams params;
        params.temperature = seed % 3 ? 1.0f : 0.0f;
        params.seed = seed;
        batch.add(random_logits(vocabulary, seed), params, std::vector<uint32_t>(60 + seed, 3));
        batch.forms.emplace_back(seed % 5 == 4 ? nullptr : &table, random() % 30);
      }
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      const std::vector<SamplingSlot> slots = sampler.slots();
      TestGpu::get().clear();

      Batch masked = batch; // the same by masks
      masked.forms.clear();
      for (size_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        std::vector<uint32_t>& mask = masked.masks.emplace_back();
        if (!batch.forms[j].first) continue;
        mask.resize((vocabulary + 31) / 32);
        for (uint32_t token = 0; token < vocabulary; ++token) {
          if (table.next(batch.forms[j].second, token)) mask[token / 32] |= 1u << token % 32;
        }
        const std::optional<uint32_t> next = table.next(batch.forms[j].second, tokens[j]);
        if (std::ranges::all_of(mask, [](uint32_t word) { return word == 0; })) continue;
        REQUIRE(next);
        CHECK(slots[j].places[(batch.histories[j].size() + 1) % SAMPLING_PLACES] == *next);
      }
      CHECK(sample_once(profile, masked) == tokens);
    }
  }
}

TEST_CASE("behind each guess, what may be drawn is what a form or a mask allows there") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const bool by_table : {false, true}) {
      CAPTURE(by_table);
      const uint32_t vocabulary = 1003, places = 20;
      std::mt19937 random(7);
      FormTable table;
      table.class_count = 30;
      for (uint32_t token = 0; token < vocabulary; ++token)
        table.classes.push_back(static_cast<uint16_t>(random() % table.class_count));
      for (uint32_t place = 0; place < places; ++place) {
        std::vector<FormTable::Step>& steps = table.places.emplace_back();
        for (uint16_t each = 1; each < table.class_count; ++each)
          if (random() % 6 == 0 || each == 1)
            steps.push_back({each, static_cast<uint16_t>(random() % places)});
      }
      const auto mask_at = [&](uint32_t place) {
        std::vector<uint32_t> mask((vocabulary + 31) / 32);
        for (uint32_t token = 0; token < vocabulary; ++token) {
          if (table.next(place, token)) mask[token / 32] |= 1u << token % 32;
        }
        return mask;
      };
      // Two sequences, the guesses of the second of which follow in the form.
      const std::vector<uint32_t> history(70, 3);
      std::vector<uint32_t> drafts, reached = {4};
      for (int i = 0; i < 5; ++i) {
        uint32_t token = random() % vocabulary;
        while (!table.next(reached.back(), token)) token = random() % vocabulary;
        drafts.push_back(token);
        reached.push_back(*table.next(reached.back(), token));
      }
      Batch batch;
      batch.params = {drawing(1), drawing(2)};
      batch.histories = {history, history};
      batch.drafts = {{}, drafts};
      if (by_table) {
        batch.forms = {{&table, 9}, {&table, reached[0]}};
        batch.draft_places = {{}, {reached.begin() + 1, reached.end()}};
      } else {
        batch.masks = {mask_at(9), mask_at(reached[0])};
        batch.draft_masks.resize(2);
        for (size_t i = 1; i < reached.size(); ++i) batch.draft_masks[1].push_back(mask_at(reached[i]));
      }
      Batch apart;
      for (uint32_t j = 0; j < 2 + drafts.size(); ++j) {
        const uint32_t sequence = j == 0 ? 0 : 1, before = j == 0 ? 0 : j - 1;
        const std::vector<float> logits = random_logits(vocabulary, 60 + j);
        const auto position = static_cast<uint32_t>(history.size()) - 1 + before;
        batch.logits.push_back(logits);
        batch.rows.push_back({0, position, sequence, 0});
        batch.output_rows.push_back(j);
        batch.drafts_before.push_back(before);
        apart.add(logits, batch.params[sequence], history, position);
        apart.masks.push_back(mask_at(j == 0 ? 9 : reached[before]));
      }
      batch.capacity = apart.capacity;
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      TestGpu::get().clear();
      CHECK(tokens == sample_once(profile, apart));
    }
  }
}
