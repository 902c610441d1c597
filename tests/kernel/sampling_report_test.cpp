// What sampling tells beside the token: log-probabilities, and whether a sequence is finished.
#include <numeric>

#include <doctest/doctest.h>

#include "kernel/sampling_batch.h"
#include "kernel/sampling_reference.h"

using namespace pumice;

namespace {

bool near(double found, double expected) {
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= (std::abs(expected) < 100 ? 1e-5 : 1e-6 * std::abs(expected));
}

// Empty if the report is what the logits say, else what is wrong with it.
std::string wrong(const TokenLogProbabilities& report, std::span<const float> logits, uint32_t token,
                  uint32_t wanted) {
  const std::vector<double> expected = reference_log_softmax(logits);
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](uint32_t id) { return std::isinf(expected[id]); });
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return reference_clean(logits[a]) > reference_clean(logits[b]);
  });
  order.resize(std::min<size_t>(order.size(), wanted));
  if (report.token != token) return "the token is " + std::to_string(report.token);
  if (!near(report.log_probability, expected[token])) {
    return "the token's is " + std::to_string(report.log_probability) + ", not " +
           std::to_string(expected[token]);
  }
  if (report.top.size() != order.size()) return std::to_string(report.top.size()) + " in the list";
  for (size_t i = 0; i < order.size(); ++i) {
    if (report.top[i].token != order[i]) return "another token at " + std::to_string(i);
    if (!near(report.top[i].log_probability, expected[order[i]]))
      return "another number at " + std::to_string(i);
  }
  return "";
}

TokenLogProbabilities report_of(std::vector<SamplingSlot> slots, uint32_t sequence, uint32_t n) {
  return SamplingState(std::as_writable_bytes(std::span(slots))).log_probabilities(sequence, n);
}

bool same(const TokenLogProbabilities& a, const TokenLogProbabilities& b) {
  return a.token == b.token && a.log_probability == b.log_probability &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const TokenLogProbability& x, const TokenLogProbability& y) {
                      return x.token == y.token && x.log_probability == y.log_probability;
                    });
}

} // namespace

TEST_CASE("log-probabilities are those of the logits as they came") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t vocabulary : {1u, 2u, 31u, 32u, 33u, 1000u, 128256u}) {
      CAPTURE(vocabulary);
      Batch batch;
      uint32_t n = 0;
      for (const std::vector<float>& logits : awkward_logits(vocabulary)) {
        SamplingParams params = drawing(n, n % 2 ? 0.0f : 1.2f);
        params.log_probabilities = std::array{1u, 5u, SAMPLING_TOP}[n++ % 3];
        params.repeat_penalty = 1.7f;
        params.frequency_penalty = 0.5f;
        params.logit_biases = {{0, 3.0f}, {vocabulary / 2, -INFINITY}};
        params.top_k = vocabulary > 1000 ? 0 : 50;
        batch.add(logits, params, {0, 1, vocabulary - 1, 1});
      }
      Sampler sampler(profile, batch);
      sampler.run();
      const std::vector<uint32_t> tokens = sampler.tokens();
      const std::vector<SamplingSlot> slots = sampler.slots();
      TestGpu::get().clear();
      for (uint32_t j = 0; j < tokens.size(); ++j) {
        CAPTURE(j);
        CHECK(wrong(report_of(slots, j, 4), batch.logits[j], tokens[j], batch.params[j].log_probabilities) ==
              "");
      }
    }
  }
}

TEST_CASE("the latest reports are kept, and asking for them changes no token") {
  const uint32_t steps = SAMPLING_REPORTS + 6;
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    for (uint32_t j = 0; j < 4; ++j) {
      SamplingParams params = drawing(j / 2, 2.0f);
      params.log_probabilities = j % 2 ? 3 : 0;
      batch.add(random_logits(700, 5), params, {9, 9}, 30);
    }
    Sampler sampler(profile, batch);
    sampler.run(static_cast<int>(steps));
    std::vector<SamplingSlot> slots = sampler.slots();
    TestGpu::get().clear();
    const SamplingState state(std::as_writable_bytes(std::span(slots)));
    for (uint32_t j = 0; j < 4; j += 2) {
      for (uint32_t n = 2; n < 2 + steps; ++n) CHECK(state.token(j, n) == state.token(j + 1, n));
      for (uint32_t n = 2 + steps - SAMPLING_REPORTS; n < 2 + steps; ++n) {
        CHECK(wrong(state.log_probabilities(j + 1, n), batch.logits[j], state.token(j, n), 3) == "");
      }
      for (const SamplingReport& report : slots[j].reports) {
        CHECK(report.count == 0);
        CHECK(report.log_probability == 0.0f);
      }
    }
  }
}

TEST_CASE("a report does not depend on the batch") {
  SamplingParams params = drawing(3);
  params.log_probabilities = 20;
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch alone, among;
    alone.add(random_logits(5000, 1), params);
    for (uint32_t j = 0; j < 5; ++j) among.add(random_logits(5000, 100 + j), params);
    among.add(random_logits(5000, 1), params);
    Sampler first(profile, alone), second(profile, among);
    first.run();
    second.run();
    CHECK(same(report_of(first.slots(), 0, 0), report_of(second.slots(), 5, 0)));
    TestGpu::get().clear();
  }
}

TEST_CASE("a sequence is finished at its first stop token") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Batch batch;
    const std::vector<float> logits = random_logits(300, 1);
    const uint32_t largest = reference_sample(logits, {}, 0).token;
    std::vector<uint32_t> history(10, largest); // the prompt's do not count
    SamplingParams params;
    batch.add(logits, params, history);
    params.stop_tokens = {largest + 1, largest};
    batch.add(logits, params, history);
    params.stop_tokens.assign(SAMPLING_STOPS, 300);
    batch.add(logits, params, history);
    params.stop_tokens.back() = largest;
    batch.add(logits, params, history);
    params.stop_tokens = {largest};
    params.frequency_penalty = 100.0f; // not the first time
    params.repeat_window = 2;
    batch.add(logits, params, history);
    Sampler sampler(profile, batch);
    sampler.run(5);
    std::vector<SamplingSlot> slots = sampler.slots();
    TestGpu::get().clear();
    SamplingState state(std::as_writable_bytes(std::span(slots)));
    CHECK(!state.finished_at(0));
    CHECK(state.finished_at(1) == 10u);
    CHECK(!state.finished_at(2));
    CHECK(state.finished_at(3) == 10u);
    const std::optional<uint32_t> late = state.finished_at(4);
    CHECK((!late || (*late > 10 && state.token(4, *late) == largest)));
    for (uint32_t j = 0; j < 5; ++j) CHECK(state.count(j) == 15);
    state.set_tokens(1, history);
    CHECK(!state.finished_at(1));
  }
}

TEST_CASE("lists that are too long are refused, or cut") {
  SamplingParams params;
  for (uint32_t i = 0; i < SAMPLING_BIASES; ++i) params.logit_biases.push_back({i, 1.0f});
  params.logit_biases.push_back({5, -2.0f}); // has one already
  params.stop_tokens.resize(SAMPLING_STOPS);
  params.log_probabilities = SAMPLING_TOP;
  CHECK(check_sampling(params).ok());

  std::vector<SamplingSlot> slots(1);
  SamplingState state(std::as_writable_bytes(std::span(slots)));
  state.set_params(0, params);
  CHECK(slots[0].bias_count == SAMPLING_BIASES);
  CHECK(slots[0].biases[5] == -1.0f);

  SamplingParams longer = params;
  longer.logit_biases.push_back({SAMPLING_BIASES, 1.0f});
  CHECK(check_sampling(longer).error().message.find("1025") != std::string::npos);
  longer.log_probabilities = 1000;
  longer.stop_tokens.resize(40);
  state.set_params(0, longer);
  CHECK(slots[0].bias_count == SAMPLING_BIASES);
  CHECK(slots[0].stop_count == SAMPLING_STOPS);
  CHECK(slots[0].log_probabilities == SAMPLING_TOP);
  longer = params;
  longer.stop_tokens.push_back(1);
  CHECK(check_sampling(longer).error().message.find("stop tokens") != std::string::npos);
  longer = params;
  longer.log_probabilities = SAMPLING_TOP + 1;
  CHECK(check_sampling(longer).error().message.find("log-probabilities") != std::string::npos);

  params = {};
  params.logit_biases = {{1, NAN}, {2, 0.0f}, {3, INFINITY}, {3, -INFINITY}, {4, 1.0f}, {4, -1.0f}};
  state.set_params(0, params);
  REQUIRE(slots[0].bias_count == 1);
  CHECK(slots[0].bias_tokens[0] == 3);
  CHECK(slots[0].biases[0] == -INFINITY);
}
