#include "generate/session.h"

#include <chrono>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/model.h"
#include "support/session.h"
#include "support/vulkan/fresh_device.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped = stories_model();

std::shared_ptr<const Model> model() {
  static const auto loaded = load_model(shipped);
  return loaded;
}

std::unique_ptr<Session> make_session(SessionOptions options = {}) {
  auto session = Session::create(model(), options);
  if (!session.ok()) FAIL(session.error().text());
  return *std::move(session);
}

const std::vector<uint32_t> prompt = {1, 300, 400, 500, 600};

} // namespace

TEST_CASE("how far the host lags behind, and how many steps go together, changes nothing") {
  std::vector<uint32_t> first;
  for (const auto& pace : {std::pair(0u, 1u), std::pair(1u, 2u), std::pair(2u, 0u), std::pair(2u, 5u),
                           std::pair(7u, 1u), std::pair(7u, 1000u)}) {
    CAPTURE(pace.first);
    CAPTURE(pace.second);
    SessionOptions options;
    options.steps_ahead = pace.first;
    options.steps_per_submit = pace.second;
    auto session = make_session(options);
    SamplingParams sampling;
    sampling.temperature = 1;
    sampling.seed = 5;
    REQUIRE(session->prefill(prompt, sampling).ok());
    const std::vector<uint32_t> tokens = take(*session, 40);
    if (first.empty()) first = tokens;
    CHECK(tokens == first);
  }
}

TEST_CASE("slices of time give the tokens of whole steps, and their log-probabilities") {
  SamplingParams sampling;
  sampling.temperature = 1;
  sampling.seed = 5;
  sampling.log_probabilities = 3;
  auto whole = make_session(), sliced = make_session();
  REQUIRE(whole->begin({prompt, true, 20, sampling}).ok());
  REQUIRE(sliced->begin({prompt, true, 20, sampling}).ok());
  const auto start = std::chrono::steady_clock::now();
  while (whole->active()) REQUIRE(whole->step().ok());
  while (sliced->active()) {
    REQUIRE(sliced->slice({1e-3}).ok());
    REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
  }
  for (int i = 0; i < 20; ++i) {
    const std::optional<BatchToken> a = whole->take(), b = sliced->take();
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->token == b->token);
    CHECK(a->finish_reason == b->finish_reason);
    CHECK(a->log_probabilities.log_probability == b->log_probabilities.log_probability);
    CHECK(a->log_probabilities.log_probability < 0);
  }
  CHECK_FALSE(whole->take());
  CHECK_FALSE(sliced->take());
}

TEST_CASE("a conversation that goes on equals one that was said at once") {
  auto session = make_session();
  REQUIRE(session->prefill(prompt, {}).ok());
  const std::vector<uint32_t> answer = take(*session, 10); // steps beyond it are in flight
  const std::vector<uint32_t> more = {700, 701, 702};
  REQUIRE(session->prefill(more, {}).ok());
  const std::vector<uint32_t> continued = take(*session, 20);

  std::vector<uint32_t> whole = prompt;
  whole.insert(whole.end(), answer.begin(), answer.end());
  whole.insert(whole.end(), more.begin(), more.end());
  auto fresh = make_session();
  REQUIRE(fresh->prefill(whole, {}).ok());
  CHECK(take(*fresh, 20) == continued);

  REQUIRE(session->reset().ok());
  REQUIRE(session->prefill(whole, {}).ok());
  CHECK(take(*session, 20) == continued);
}

TEST_CASE("seeds reproduce, and differ") {
  const auto sampled = [&](uint64_t seed) {
    auto session = make_session();
    SamplingParams sampling;
    sampling.temperature = 1.2f;
    sampling.seed = seed;
    REQUIRE(session->prefill(prompt, sampling).ok());
    return take(*session, 30);
  };
  CHECK(sampled(1) == sampled(1));
  CHECK(sampled(1) != sampled(2));
}

TEST_CASE("the context fills to its last position and no further") {
  SessionOptions options;
  options.size.context = 40;
  std::vector<uint32_t> first;
  for (uint32_t together : {1u, 2u, 5u}) {
    options.steps_per_submit = together;
    auto session = make_session(options);
    REQUIRE(session->prefill(prompt, {}).ok());
    const std::vector<uint32_t> tokens = take(*session, 40 - prompt.size());
    if (first.empty()) first = tokens;
    CHECK(tokens == first);
    CHECK(session->full());
    CHECK(says(session->next(), {"context of 40 tokens is full"}) == "");
  }
}

TEST_CASE("errors of a session, which can be used afterwards") {
  auto session = make_session();
  CHECK(says(session->next(), {"no prompt"}) == "");
  CHECK(says(session->prefill({}, {}), {"prompt is empty"}) == "");
  CHECK(says(session->prefill(std::vector<uint32_t>(600, 5), {}),
             {"600 tokens", "context of 512", "at most 511"}) == "");
  const std::vector<uint32_t> outside = {1, 2048};
  CHECK(says(session->prefill(outside, {}), {"stories-2m.gguf", "token 2048", "ids are 0 to 2047"}) == "");
  REQUIRE(session->reset().ok());
  REQUIRE(session->prefill(prompt, {}).ok());
  CHECK(take(*session, 5).size() == 5);

  SessionOptions options;
  options.size.context = 1000;
  CHECK(says(Session::create(model(), options), {"1000 tokens", "made for 512"}) == "");
}

TEST_CASE("reading a prompt can be cancelled, and the session used again") {
  SessionOptions options;
  options.size.chunk = 2;
  auto session = make_session(options);
  int calls = 0;
  const Status status = session->prefill(prompt, {}, [&](uint64_t, uint64_t) { return ++calls < 2; });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == Code::cancelled);
  REQUIRE(session->reset().ok());
  REQUIRE(session->prefill(prompt, {}).ok());
  const auto after = take(*session, 8);
  auto fresh = make_session(options);
  REQUIRE(fresh->prefill(prompt, {}).ok());
  CHECK(take(*fresh, 8) == after);
}

TEST_CASE("loading can be cancelled") {
  const auto result = Model::load(shipped, test_context(), [](uint64_t, uint64_t) { return false; });
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == Code::cancelled);
}

TEST_CASE("a sequence padded on the left says what it says without padding") {
  RunnerOptions options;
  options.size.cache = CacheType::f32;
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"logits", "hidden_states.0"};
  const uint32_t count = static_cast<uint32_t>(prompt.size());
  auto runner = Runner::create(model(), options);
  REQUIRE(runner.ok());
  std::vector<StepToken> rows;
  for (uint32_t i = 0; i < count; ++i) rows.push_back({prompt[i], i, 0, 0, true});
  REQUIRE((*runner)->write_step(rows).ok());
  REQUIRE((*runner)->submit(count).ok());
  const auto plain = (*runner)->read("logits", count);
  REQUIRE(plain.ok());
  // Rotary positions are relative, so shifted by the padding the logits agree but for rounding.
  std::vector<StepToken> padded;
  for (uint32_t i = 0; i < 3; ++i) padded.push_back({0, i, 0, 3, true});
  for (uint32_t i = 0; i < count; ++i) padded.push_back({prompt[i], i + 3, 0, 3, true});
  REQUIRE((*runner)->write_step(padded).ok());
  REQUIRE((*runner)->submit(count + 3).ok());
  const auto shifted = (*runner)->read("logits", count + 3);
  REQUIRE(shifted.ok());
  const uint32_t vocabulary = (*runner)->columns("logits");
  double difference = 0, total = 0;
  for (size_t i = 0; i < plain->size(); ++i) {
    const double d = (*plain)[i] - (*shifted)[i + 3 * vocabulary];
    difference += d * d;
    total += double{(*plain)[i]} * (*plain)[i];
  }
  CHECK(difference <= 1e-10 * total);
}

TEST_CASE("kernels of a whole chunk are made while a model is loaded, not at the first prompt") {
  const DeviceContext device = fresh_device();
  const auto loaded = Model::load(shipped, device);
  if (!loaded.ok()) FAIL(loaded.error().text());
  const size_t made = device.pipelines->count();
  auto session = Session::create(*loaded, {});
  if (!session.ok()) FAIL(session.error().text());
  REQUIRE((*session)->prefill(std::vector<uint32_t>(100, 300), {}).ok());
  CHECK(device.pipelines->count() == made);
}
