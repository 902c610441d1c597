// Sessions of models whose states only go back to where one was kept.
#include <chrono>

#include <doctest/doctest.h>

#include "kernel/state_layout.h"
#include "support/fixtures.h"
#include "support/model.h"
#include "support/session.h"
#include "support/temporary_folder.h"

using namespace pumice;

namespace {

constexpr uint32_t interval = StateLayout::interval;
constexpr const char* folders[] = {"lfm2", "mamba2", "qwen3-5"};

std::unique_ptr<Session> make_session(const std::shared_ptr<const Model>& model, uint32_t context = 256) {
  SessionOptions options;
  options.size.context = context;
  options.size.chunk = 48;
  auto session = Session::create(model, options);
  if (!session.ok()) FAIL(session.error().text());
  return *std::move(session);
}

std::vector<uint32_t> some_prompt(uint32_t tokens) {
  std::vector<uint32_t> prompt;
  for (uint32_t i = 0; i < tokens; ++i) prompt.push_back(3 + (i * i * 7 + i) % 300);
  return prompt;
}

SamplingParams some_sampling() {
  SamplingParams sampling;
  sampling.temperature = 1.1f;
  sampling.seed = 5;
  return sampling;
}

std::vector<uint32_t> continued(Session& session, const std::vector<uint32_t>& prompt, uint32_t reused) {
  REQUIRE(session.set_prompt(prompt, some_sampling()).ok());
  CHECK(session.reused() == reused);
  return take(session, 20);
}

} // namespace

TEST_CASE("a session with states goes back to a checkpoint") {
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> prompt = some_prompt(2 * interval + 40);
    std::vector<uint32_t> changed = prompt;
    changed[interval + 30] ^= 1;
    std::vector<uint32_t> early = prompt;
    early[interval - 1] ^= 1;
    auto session = make_session(model);
    const std::vector<uint32_t> first = continued(*session, prompt, 0);
    const std::vector<uint32_t> second = continued(*session, changed, interval);
    CHECK(continued(*session, prompt, interval) == first);
    const std::vector<uint32_t> third = continued(*session, early, 0);
    CHECK(continued(*make_session(model), changed, 0) == second);
    CHECK(continued(*make_session(model), early, 0) == third);

    // A conversation that goes on after what was said.
    std::vector<uint32_t> longer = prompt;
    longer.insert(longer.end(), first.begin(), first.end());
    continued(*session, prompt, 0);
    REQUIRE(session->set_prompt(longer, some_sampling()).ok());
    CHECK(session->reused() >= 2 * interval);
    const std::vector<uint32_t> after = take(*session, 20);
    CHECK(continued(*make_session(model), longer, 0) == after);
  }
}

TEST_CASE("a session with states is saved, restored, copied and suspended") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  for (const char* name : folders) {
    for (uint32_t tokens : {5u, interval, 2 * interval + 9}) {
      CAPTURE(name);
      CAPTURE(tokens);
      const auto model = load_model(fixtures().model(name));
      const std::vector<uint32_t> prompt = some_prompt(tokens);
      auto plain = make_session(model);
      const std::vector<uint32_t> before = continued(*plain, prompt, 0), after = take(*plain, 30);

      auto session = make_session(model);
      CHECK(continued(*session, prompt, 0) == before);
      REQUIRE(session->save(path).ok());
      auto copy = make_session(model, 240);
      REQUIRE(copy->copy(*session).ok());
      CHECK(take(*copy, 30) == after);
      auto restored = make_session(model, 230);
      REQUIRE(restored->restore(path).ok());
      CHECK(take(*restored, 30) == after);
      REQUIRE(session->suspend().ok());
      REQUIRE(session->resume(model).ok());
      CHECK(take(*session, 30) == after);
    }
  }
}

TEST_CASE("slices that were discarded do not advance a state twice") {
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> prompt = some_prompt(interval + 20);
    const std::vector<uint32_t> expected = continued(*make_session(model), prompt, 0);
    auto session = make_session(model);
    REQUIRE(session->begin({prompt, true, 20, some_sampling()}).ok());
    std::vector<uint32_t> tokens;
    // Each goes back to where a state was kept: a program that discards sooner than it comes from there to
    // the next such place does not get on.
    int discards = 3;
    // A call that finds enough slices in flight makes none, so the device's speed decides how many calls
    // there are.
    const auto start = std::chrono::steady_clock::now();
    const auto in_time = [&] { return std::chrono::steady_clock::now() - start < std::chrono::minutes(2); };
    for (int slice = 0; session->active() && in_time(); ++slice) {
      REQUIRE(session->advance(1e-4, {}).ok());
      if (slice % 7 == 6 && discards-- > 0) REQUIRE(session->discard().ok());
      while (const auto token = session->take()) tokens.push_back(token->token);
    }
    while (const auto token = session->take()) tokens.push_back(token->token);
    CHECK(tokens == expected);
  }
}
