// Sessions of models whose states only go back to where one was kept.
#include <map>

#include <doctest/doctest.h>

#include "kernel/state_layout.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/session.h"
#include "support/time_limit.h"

using namespace pumice;

namespace {

constexpr uint32_t interval = StateLayout::interval;
constexpr const char* folders[] = {"lfm2", "mamba2", "qwen3-5"};

std::unique_ptr<Session> make_session(const std::shared_ptr<const Model>& model, uint32_t context = 256,
                                      uint32_t chunk = 48) {
  SessionOptions options;
  options.size.context = context;
  options.size.chunk = chunk;
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

TEST_CASE("texts of a batch share pages up to a state that is kept, and copy rings") {
  for (const char* name : {"lfm2", "mamba2", "qwen3-5", "gemma3", "mistral-swa"}) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    SessionOptions options;
    options.size.context = 256;
    options.size.chunk = 48;
    options.size.sequences = 3;
    options.size.pages = all_pages;
    const auto batch = require(Batch::create(model, options));
    std::vector<std::vector<uint32_t>> prompts(3, some_prompt(2 * interval + 40));
    prompts[1].push_back(7);
    prompts[2][interval + 30] ^= 1;
    std::vector<uint32_t> ids;
    for (const auto& prompt : prompts) ids.push_back(require(batch->add({prompt, some_sampling(), 20})));
    std::map<uint32_t, std::vector<uint32_t>> texts;
    std::map<uint32_t, uint32_t> reused;
    while (batch->sequences()) {
      for (const BatchToken& token : require(batch->step())) {
        texts[token.sequence].push_back(token.token);
        reused[token.sequence] = token.reused;
      }
    }
    CHECK(reused[ids[0]] == 0);
    const bool states = !batch->runner().states().empty();
    CHECK(reused[ids[1]] == (states ? 2 * interval : 2 * interval + 40));
    CHECK(reused[ids[2]] == (states ? interval : interval + 30));
    for (size_t i = 0; i < ids.size(); ++i)
      CHECK(texts[ids[i]] == continued(*make_session(model), prompts[i], 0));
  }
}

TEST_CASE("a session with states is saved, restored, copied and suspended") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  // Each model with a length; a long run has each with each.
  for (const auto& [name, tokens] : in_turn(folders, std::array{5u, interval, 2 * interval + 9})) {
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

TEST_CASE("slices that were discarded do not advance a state twice") {
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> prompt = some_prompt(interval + 20);
    const std::vector<uint32_t> expected = continued(*make_session(model), prompt, 0);
    auto session = make_session(model);
    REQUIRE(session->begin({prompt, true, 20, some_sampling()}).ok());
    std::vector<uint32_t> tokens;
    int discards = 3;
    const TimeLimit limit;
    for (int slice = 0; session->active() && limit.in_time(); ++slice) {
      REQUIRE(session->slice({1e-4}).ok());
      if (slice % 7 == 6 && discards-- > 0) REQUIRE(session->discard().ok());
      while (const auto token = session->take()) tokens.push_back(token->token);
    }
    while (const auto token = session->take()) tokens.push_back(token->token);
    CHECK(tokens == expected);
  }
}

// Reads a session's text in slices of a launch.
class LaunchByLaunch {
public:
  explicit LaunchByLaunch(Session& session) : session_(session) {}

  // Runs a launch: no budget is enough for two. Returns how many it ran.
  uint32_t launch() {
    const auto result = session_.slice({1e-12});
    if (!result.ok()) FAIL(result.error().text());
    take();
    return result->report.dispatches;
  }
  uint32_t launches_to(size_t tokens) {
    uint32_t launches = 0;
    while (session_.active() && tokens_.size() < tokens) launches += launch();
    return launches;
  }
  // Each time discards what is not done after so many launches.
  void run_with_discards(uint32_t most_launches, int discards) {
    for (; session_.active() && discards > 0; --discards) {
      for (uint32_t launches = 0; session_.active() && launches < most_launches;) launches += launch();
      REQUIRE(session_.discard().ok());
      take();
    }
  }
  const std::vector<uint32_t>& tokens() const { return tokens_; }

private:
  void take() {
    while (const auto token = session_.take()) tokens_.push_back(token->token);
  }

  Session& session_;
  std::vector<uint32_t> tokens_;
};

// Long prompts are read in many steps, each with about as many launches as a token has.
TEST_CASE("a program that discards slices after every step gets on") {
  constexpr uint32_t chunk = 4;
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> prompt = some_prompt(interval + 20), brief = some_prompt(19);
    const std::vector<uint32_t> expected = continued(*make_session(model, 256, chunk), prompt, 0);
    const std::vector<uint32_t> after_brief = continued(*make_session(model, 256, chunk), brief, 0);

    // Discarded while it generates: to read again what came after the last checkpoint takes five steps.
    auto session = make_session(model, 256, chunk);
    REQUIRE(session->begin({prompt, true, 20, some_sampling()}).ok());
    LaunchByLaunch generating(*session);
    generating.launches_to(2);
    uint32_t step = 0; // launches of one, and of those that run before its token is seen
    for (const size_t tokens : {3, 4, 5}) step = std::max(step, generating.launches_to(tokens));
    generating.run_with_discards(step + 1, 60);
    CHECK(!session->active());
    CHECK(generating.tokens() == expected);

    // Discarded while it reads the prompt, too.
    auto reading = make_session(model, 256, chunk);
    REQUIRE(reading->begin({brief, true, 20, some_sampling()}).ok());
    LaunchByLaunch from_begin(*reading);
    from_begin.run_with_discards(step + 1, 100);
    CHECK(!reading->active());
    CHECK(from_begin.tokens() == after_brief);
  }
}

namespace {

// A text that repeats itself, also because few tokens may be drawn.
GenerationRequest repetitive(uint32_t seed) {
  std::vector<uint32_t> prompt;
  for (uint32_t i = 0; i < interval - 9 + seed; ++i) prompt.push_back(3 + i % (4 + seed));
  GenerationRequest request{prompt, true, interval + 20, some_sampling()};
  request.sampling.seed = seed;
  request.sampling.logit_biases = {{3, 40}, {4, 39}, {5, 38}};
  if (seed == 0) request.sampling.temperature = 0;
  return request;
}

std::vector<uint32_t> taken(Session& session) {
  std::vector<uint32_t> tokens;
  while (const auto token = session.take()) tokens.push_back(token->token);
  return tokens;
}

} // namespace

TEST_CASE("texts of models with states stay the same where their tokens are guessed at") {
  const TemporaryFolder folder;
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    SessionOptions options;
    options.size.context = 256;
    options.size.chunk = 48;
    options.size.sequences = 3;
    const auto plain = make_session(model);
    options.size.drafts = 5;
    options.always_draft = true;
    const auto batch = require(Batch::create(model, options));
    options.size.sequences = 1;
    const auto session = require(Session::create(model, options));
    std::map<uint32_t, std::vector<uint32_t>> expected, together;
    for (uint32_t seed = 0; seed < 3; ++seed) {
      CAPTURE(seed);
      const GenerationRequest request = repetitive(seed);
      require(plain->begin(request));
      while (plain->active()) require(plain->step());
      const std::vector<uint32_t> text = expected[seed] = taken(*plain);

      require(session->begin(request));
      while (session->active()) require(session->step());
      CHECK(taken(*session) == text);
      require(session->save(folder.path() / "state"));
      require(plain->restore(folder.path() / "state")); // whose latest states have other places
      GenerationRequest more{{7, 8}, false, 10, some_sampling()};
      require(session->begin(more));
      while (session->active()) require(session->step());
      require(plain->begin(more));
      while (plain->active()) require(plain->step());
      CHECK(taken(*session) == taken(*plain));

      require(session->begin(request));
      std::vector<uint32_t> sliced;
      const TimeLimit limit;
      for (int slice = 0; session->active() && limit.in_time(); ++slice) {
        require(session->slice({slice % 2 ? 1e-3 : 1e-4}));
        if (slice % 9 == 8 && slice < 100) require(session->discard());
        for (const uint32_t token : taken(*session)) sliced.push_back(token);
      }
      for (const uint32_t token : taken(*session)) sliced.push_back(token);
      CHECK(sliced == text);
      require(batch->add({request.tokens, request.sampling, request.max_tokens}));
    }
    CHECK(session->drafts().held > 50);
    CHECK(session->drafts().held < session->drafts().guessed);
    while (batch->sequences()) {
      for (const BatchToken& token : require(batch->step())) together[token.sequence].push_back(token.token);
    }
    CHECK(together == expected);
  }
}
