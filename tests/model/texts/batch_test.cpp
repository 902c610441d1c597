// Sequences that share their steps, against each of them alone.
#include "step/batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

std::shared_ptr<const Model> model() {
  static const auto loaded = load_one_kernel_model(stories_model());
  return loaded;
}

SessionOptions options_for(uint32_t sequences, uint32_t chunk = 16, uint32_t ahead = 2,
                           uint32_t together = 0) {
  SessionOptions options;
  options.size.context = 200;
  options.size.chunk = chunk;
  options.size.sequences = sequences;
  options.size.pages = all_pages;
  options.steps_ahead = ahead;
  options.steps_per_submit = together;
  return options;
}

std::unique_ptr<Batch> make_batch(const SessionOptions& options,
                                  const std::shared_ptr<const Model>& of = model()) {
  auto batch = Batch::create(of, options);
  if (!batch.ok()) FAIL(batch.error().text());
  return *std::move(batch);
}

uint32_t add(Batch& batch, const SequenceRequest& request) {
  const auto id = batch.add(request);
  if (!id.ok()) FAIL(id.error().text());
  return *id;
}

struct Text {
  std::vector<uint32_t> tokens;
  std::vector<float> log_probabilities; // the token's, then the top ones', of one after the other
  FinishReason finish_reason = FinishReason::none;
  bool operator==(const Text&) const = default;
};
using Texts = std::map<uint32_t, Text>;

void step(Batch& batch, Texts& texts) {
  const auto results = batch.step();
  if (!results.ok()) FAIL(results.error().text());
  for (const BatchToken& result : *results) {
    Text& text = texts[result.sequence];
    CHECK(text.finish_reason == FinishReason::none); // nothing comes after the last one
    text.tokens.push_back(result.token);
    text.finish_reason = result.finish_reason;
    if (result.log_probabilities.top.empty()) continue;
    CHECK(result.log_probabilities.token == result.token);
    text.log_probabilities.push_back(result.log_probabilities.log_probability);
    for (const TokenLogProbability& each : result.log_probabilities.top) {
      text.log_probabilities.push_back(each.log_probability);
    }
  }
}

void finish(Batch& batch, Texts& texts) {
  while (batch.sequences()) step(batch, texts);
}

Text alone(const SequenceRequest& request) {
  auto batch = make_batch(options_for(1, 128, 0, 1));
  const uint32_t id = add(*batch, request);
  Texts texts;
  finish(*batch, texts);
  return texts[id];
}

// Runs a text beside no others. How many tokens of its prompt were there already.
uint32_t reused_by(Batch& batch, const SequenceRequest& request) {
  Texts texts;
  const uint32_t id = add(batch, request);
  step(batch, texts);
  const uint32_t tokens = batch.reused(id);
  finish(batch, texts);
  CHECK(texts[id] == alone(request));
  return tokens;
}

void check_together(Batch& batch, const std::vector<SequenceRequest>& requests,
                    const std::vector<Text>& expected) {
  std::vector<uint32_t> ids;
  for (const SequenceRequest& request : requests) ids.push_back(add(batch, request));
  Texts texts;
  finish(batch, texts);
  for (size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i);
    CHECK(texts[ids[i]] == expected[i]);
  }
}

std::vector<uint32_t> some_prompt(uint32_t count, uint32_t seed) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = (seed * 7919 + i * 131 + i * i * 17) % 2000 + 3;
  return tokens;
}

// Different lengths, samplings and ends.
std::vector<SequenceRequest> some_requests() {
  SamplingParams warm;
  warm.temperature = 1;
  warm.log_probabilities = 3;
  warm.seed = 3;
  SamplingParams filtered = warm;
  filtered.top_k = 20;
  filtered.top_p = 0.9f;
  filtered.seed = 4;
  SamplingParams penalised;
  penalised.repeat_penalty = 1.3f;
  std::vector<SequenceRequest> requests = {{some_prompt(5, 1), {}, 30},
                                           {some_prompt(70, 2), warm, 11},
                                           {some_prompt(1, 3), filtered, 40},
                                           {some_prompt(190, 4), penalised, 100},
                                           {some_prompt(33, 5), warm, 1}};
  // One stops at a token that it is known to say.
  requests[0].sampling.stop_tokens = {5, alone(requests[0]).tokens[17]};
  return requests;
}

// A text of a few tokens only, so that most guesses hold and others do not.
SequenceRequest repetitive(uint64_t seed) {
  SamplingParams sampling;
  sampling.temperature = 1;
  sampling.seed = seed;
  sampling.log_probabilities = 1;
  sampling.logit_biases = {{300, 100.0f}, {301, 99.0f}, {302, 96.0f}};
  return {{300, 301}, sampling, 120};
}

} // namespace

TEST_CASE("each sequence of a batch gives the tokens that it gives alone") {
  const std::vector<SequenceRequest> requests = some_requests();
  std::vector<Text> expected;
  for (const SequenceRequest& request : requests) expected.push_back(alone(request));
  CHECK(expected[0].finish_reason == FinishReason::stop);
  CHECK(expected[0].tokens.size() <= 18);
  CHECK(expected[0].tokens.back() == requests[0].sampling.stop_tokens[1]);
  CHECK(expected[1].finish_reason == FinishReason::length);
  CHECK(expected[1].tokens.size() == 11);
  CHECK(expected[1].log_probabilities.size() == 11 * 4);
  CHECK(expected[3].finish_reason == FinishReason::context);
  CHECK(expected[3].tokens.size() == 10);
  CHECK(expected[4].tokens.size() == 1);
  // Fewer slots than sequences too: the others wait. A long run has all slots, chunks and paces with each
  // other.
  const std::pair<uint32_t, uint32_t> paces[] = {{0, 1}, {3, 2}, {2, 5}};
  for (const auto& [slots, chunk, pace] : in_turn(std::array{5u, 2u, 1u}, std::array{7u, 64u}, paces)) {
    CAPTURE(slots);
    CAPTURE(chunk);
    CAPTURE(pace.first);
    CAPTURE(pace.second);
    auto batch = make_batch(options_for(slots, chunk, pace.first, pace.second));
    std::vector<uint32_t> ids;
    for (const SequenceRequest& request : requests) ids.push_back(add(*batch, request));
    CHECK(batch->sequences() == 5);
    Texts texts;
    finish(*batch, texts);
    for (size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(i);
      CHECK(texts[ids[i]] == expected[i]);
    }
  }
}

TEST_CASE("texts that take turns are what they are alone, and none waits longer than the others") {
  const std::vector<SequenceRequest> requests = some_requests();
  for (const uint32_t most : turn_of(std::array{1u, 2u, 4u}, 1)) {
    CAPTURE(most);
    SessionOptions options = options_for(5);
    options.most_texts = most;
    auto batch = make_batch(options);
    std::vector<uint32_t> ids;
    for (const SequenceRequest& request : requests) ids.push_back(add(*batch, request));
    Texts texts;
    finish(*batch, texts);
    for (size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(i);
      CHECK(texts[ids[i]] == alone(requests[i]));
    }
    std::map<uint32_t, size_t> tokens, waited;
    for (uint32_t i = 0; i < 5; ++i) tokens[add(*batch, {some_prompt(3, i), {}, 40})] = 0;
    while (batch->sequences() == 5) {
      const bool prompts_read = waited.size() == 5;
      const auto results = batch->step();
      REQUIRE(results.ok());
      for (auto& [id, steps] : waited) ++steps;
      for (const BatchToken& token : *results) {
        ++tokens[token.sequence];
        waited[token.sequence] = 0;
      }
      if (!prompts_read) continue;
      CHECK(results->size() <= most);
      for (const auto& [id, steps] : waited) CHECK(steps <= 5 / most + 1);
    }
    for (const auto& [id, count] : tokens) CHECK(count + 1 >= 40);
  }
}

TEST_CASE("texts whose tokens are guessed at stay the same" * doctest::test_suite("rest")) {
  std::vector<SequenceRequest> requests = some_requests();
  requests.push_back(repetitive(1));
  std::vector<Text> expected;
  for (const SequenceRequest& request : requests) expected.push_back(alone(request));
  for (const auto& [slots, drafts, always] :
       in_turn(std::array{1u, 3u, 6u}, std::array{1u, 4u, 7u, 31u}, std::array{true, true, false})) {
    CAPTURE(slots);
    CAPTURE(drafts);
    CAPTURE(always);
    SessionOptions options = options_for(slots, 64);
    options.size.drafts = drafts;
    options.always_draft = always;
    auto batch = make_batch(options);
    check_together(*batch, requests, expected);
    if (!always) continue;
    CHECK(batch->drafts().guessed > 0);
    CHECK(batch->drafts().held > 0);
    CHECK(batch->drafts().held <= batch->drafts().guessed);
  }
}

TEST_CASE("texts whose tokens a model guesses at stay the same" * doctest::test_suite("rest")) {
  const std::vector<SequenceRequest> requests = some_requests();
  std::vector<Text> expected;
  for (const SequenceRequest& request : requests) expected.push_back(alone(request));
  for (const auto& [slots, always] : in_turn(std::array{1u, 3u}, std::array{true, false})) {
    CAPTURE(slots);
    CAPTURE(always);
    SessionOptions options = options_for(slots, 64);
    options.size.drafts = 4;
    options.always_draft = always;
    options.draft_model = model(); // whose guesses all hold
    auto batch = make_batch(options);
    check_together(*batch, requests, expected);
    if (!always) continue;
    CHECK(batch->drafts().guessed > 40);
    CHECK(batch->drafts().held > batch->drafts().guessed * 9 / 10);
  }
  SessionOptions options = options_for(1);
  options.size.drafts = 4;
  options.draft_model = load_one_kernel_model(fixtures().model("llama-gqa"));
  CHECK(says(Batch::create(model(), options), {"same vocabulary"}) == "");
}

TEST_CASE("texts that end, stop or go on beside guesses") {
  const SequenceRequest request = repetitive(2);
  const Text whole = alone(request);
  SessionOptions options = options_for(2, 64);
  options.size.drafts = 7;
  options.always_draft = true;
  auto batch = make_batch(options);
  const uint32_t first = add(*batch, request), second = add(*batch, request);
  Texts texts;
  while (texts[first].tokens.size() < 10) step(*batch, texts);
  REQUIRE(batch->stop(first).ok());
  // The stopped text goes on in the same slot, from what is there.
  SequenceRequest more = request;
  more.max_tokens -= static_cast<uint32_t>(texts[first].tokens.size());
  more.prompt.insert(more.prompt.end(), texts[first].tokens.begin(), texts[first].tokens.end());
  const uint32_t third = add(*batch, more);
  finish(*batch, texts);
  CHECK(texts[second] == whole);
  std::vector<uint32_t> all = texts[first].tokens;
  all.insert(all.end(), texts[third].tokens.begin(), texts[third].tokens.end());
  CHECK(all == whole.tokens);
}

TEST_CASE("sequences that come and go do not disturb the others") {
  std::vector<SequenceRequest> requests = some_requests();
  requests[0].sampling.stop_tokens = {};
  auto batch = make_batch(options_for(3));
  Texts texts;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) step(*batch, texts);
  };
  std::vector<uint32_t> ids;
  ids.push_back(add(*batch, requests[0]));
  steps(6);
  ids.push_back(add(*batch, requests[1])); // five steps of prompt beside the first one's tokens
  steps(5);
  REQUIRE(batch->stop(ids[0]).ok());
  REQUIRE(batch->stop(ids[0]).ok()); // it is gone already
  ids.push_back(add(*batch, requests[2]));
  ids.push_back(add(*batch, requests[3])); // dropped while its prompt is being read
  steps(4);
  REQUIRE(batch->stop(ids[3]).ok());
  ids.push_back(add(*batch, requests[4]));
  const uint32_t never = add(*batch, requests[4]); // dropped before it got anywhere
  REQUIRE(batch->stop(never).ok());
  finish(*batch, texts);
  CHECK(texts.count(never) == 0);
  CHECK(texts.count(ids[3]) == 0);
  const Text first = alone(requests[0]);
  const std::vector<uint32_t>& cut = texts[ids[0]].tokens;
  CHECK(cut.size() >= 6);
  CHECK(cut.size() < first.tokens.size());
  CHECK(std::equal(cut.begin(), cut.end(), first.tokens.begin()));
  for (size_t i : {1, 2, 4}) {
    CAPTURE(i);
    CHECK(texts[ids[i]] == alone(requests[i]));
  }
  const auto idle = batch->step();
  REQUIRE(idle.ok());
  CHECK(idle->empty());
}

TEST_CASE("the logits of a batch are those of each sequence alone, to the bit") {
  const auto run = [](uint32_t sequences, const std::vector<std::vector<StepToken>>& steps) {
    RunnerOptions options;
    options.size = options_for(sequences, 40).size;
    options.size.pages = 0; // a batch says which a sequence has
    options.sampling = false;
    options.all_outputs = true;
    options.readable = {"logits"};
    auto runner = Runner::create(model(), options);
    if (!runner.ok()) FAIL(runner.error().text());
    std::map<std::pair<uint32_t, uint32_t>, std::vector<float>> logits; // by sequence and position
    for (const std::vector<StepToken>& rows : steps) {
      const uint32_t count = static_cast<uint32_t>(rows.size());
      REQUIRE((*runner)->write_step(rows).ok());
      REQUIRE((*runner)->submit(count).ok());
      const auto values = (*runner)->read("logits", count);
      REQUIRE(values.ok());
      const ptrdiff_t width = (*runner)->columns("logits");
      for (uint32_t i = 0; i < count; ++i) {
        logits[{rows[i].sequence, rows[i].position}] = {values->begin() + i * width,
                                                        values->begin() + (i + 1) * width};
      }
    }
    return logits;
  };
  const auto row = [](uint32_t sequence, uint32_t position) {
    return StepToken{some_prompt(40, sequence)[position], position, sequence, 0, true};
  };
  // Three sequences at different places: prompts, single tokens and both, in one order and another.
  std::vector<std::vector<StepToken>> together(4);
  for (uint32_t i = 0; i < 9; ++i) together[0].push_back(row(0, i));
  for (uint32_t i = 0; i < 20; ++i) together[0].push_back(row(2, i));
  together[1] = {row(2, 20), row(0, 9)};
  for (uint32_t i = 0; i < 17; ++i) together[1].push_back(row(1, i));
  together[2] = {row(0, 10), row(1, 17), row(2, 21)};
  together[3] = {row(1, 18), row(2, 22)};
  const auto batched = run(3, together);
  for (uint32_t sequence = 0; sequence < 3; ++sequence) {
    std::vector<std::vector<StepToken>> single;
    for (const auto& [place, values] : batched) {
      if (place.first != sequence) continue;
      single.push_back({row(sequence, place.second)});
      single.back()[0].sequence = 0;
    }
    for (const auto& [place, values] : run(1, single)) {
      CAPTURE(sequence);
      CAPTURE(place.second);
      CHECK(values == batched.at({sequence, place.second}));
    }
  }
}

TEST_CASE("a slot's next prompt does not compute again what it has in common with the last") {
  auto batch = make_batch(options_for(2));
  SequenceRequest first{some_prompt(50, 1), {}, 20}, other{some_prompt(50, 2), {}, 20};
  Texts texts;
  add(*batch, other);
  add(*batch, first);
  finish(*batch, texts);
  // Each goes on in the slot where its beginning is.
  SequenceRequest longer = first;
  longer.prompt.resize(41);
  longer.prompt.insert(longer.prompt.end(), {7, 8, 9});
  SequenceRequest again = other;
  const uint32_t a = add(*batch, longer), b = add(*batch, again);
  step(*batch, texts);
  CHECK(batch->reused(a) == 41);
  CHECK(batch->reused(b) == 49); // a token has to run for its logits
  finish(*batch, texts);
  CHECK(texts[a] == alone(longer));
  CHECK(texts[b] == alone(again));
  CHECK(batch->reused(a) == 0); // it has ended
}

TEST_CASE("a new text takes the slot that was not used for longest, and leaves those of texts that go on") {
  auto batch = make_batch(options_for(3));
  Texts texts;
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back({some_prompt(60, i + 1), {}, 3});
    requests.back().prompt[0] = 1; // all begin with the same token
    if (i == 3) break;
    add(*batch, requests.back());
    finish(*batch, texts);
  }
  const auto reused = [&](const SequenceRequest& request) { return reused_by(*batch, request); };
  CHECK(reused(requests[0]) == 59);
  CHECK(reused(requests[3]) <= 1); // in place of the second
  CHECK(reused(requests[0]) == 59);
  CHECK(reused(requests[2]) == 59);
}

TEST_CASE("what sequences begin with alike is computed once, also if they are added together") {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back({some_prompt(100, 1), {}, 12});
    if (i < 3) requests.back().prompt.push_back(i + 3); // the last one is a beginning of the others
  }
  requests.push_back({some_prompt(100, 2), {}, 12});
  for (const bool first_stops : {false, true}) {
    auto batch = make_batch(options_for(5, 48));
    std::vector<uint32_t> ids;
    for (const SequenceRequest& request : requests) ids.push_back(add(*batch, request));
    Texts texts;
    step(*batch, texts);
    if (first_stops) REQUIRE(batch->stop(ids[0]).ok());
    std::map<uint32_t, uint32_t> reused;
    while (batch->sequences()) {
      step(*batch, texts);
      for (const uint32_t id : ids) reused[id] = std::max(reused[id], batch->reused(id));
    }
    CHECK(reused[ids[0]] == 0);
    if (!first_stops) CHECK(reused[ids[1]] == 100); // otherwise it goes on in the first one's slot
    CHECK(reused[ids[2]] == 100);
    CHECK(reused[ids[3]] == 99); // a token has to run for its logits
    CHECK(reused[ids[4]] == 0);
    for (size_t i = first_stops; i < ids.size(); ++i) CHECK(texts[ids[i]] == alone(requests[i]));
  }
}

// Texts that begin with one of a few beginnings, some of them longer than a page.
std::vector<SequenceRequest> branching_requests(uint32_t count) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t random = i * 2654435761u >> 8;
    requests.push_back({some_prompt(40 + random % 4 * 35, 1 + random / 4 % 3), {}, 3 + random / 16 % 30});
    requests.back().prompt.push_back(3 + random / 64 % 5);
    requests.back().sampling.temperature = 1;
    requests.back().sampling.seed = i;
  }
  return requests;
}

TEST_CASE("what texts begin with alike lies in the same pages") {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back({some_prompt(150, 1), {}, 20});
    requests.back().prompt.push_back(i + 3);
  }
  auto batch = make_batch(options_for(4, 48));
  REQUIRE(batch->size().pages > 0);
  std::vector<uint32_t> ids;
  for (const SequenceRequest& request : requests) ids.push_back(add(*batch, request));
  Texts texts;
  uint32_t most = 0;
  while (batch->sequences()) {
    step(*batch, texts);
    most = std::max(most, batch->busy_pages());
  }
  CHECK(most == 2 + 4); // the third page of each is its own
  CHECK(batch->busy_pages() == 0);
  for (size_t i = 0; i < ids.size(); ++i) CHECK(texts[ids[i]] == alone(requests[i]));
}

TEST_CASE("pages give the kernels for GPUs what caches of each text do") {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 3; ++i) requests.push_back({some_prompt(90 + i, 1 + i), {}, 12});
  const DeviceProfile& own = TestGpu::get().profile;
  // Each compiles a model's kernels twice. The plain one's pages are tested kernel by kernel.
  constexpr std::array variants = {"split-kv", "cm", "portable"};
  for (const char* variant : turn_of(variants, own.matrix_shapes.empty() ? 0 : 1)) {
    CAPTURE(variant);
    DeviceContext context = test_context();
    context.profile = forced_profile(variant);
    context.profile.matrix_shapes = own.matrix_shapes;
    const auto forced = require(Model::load(stories_model(), context));
    std::vector<Texts> found;
    for (const uint32_t pages : {0u, 8u}) {
      SessionOptions options = options_for(3, 48);
      options.size.pages = pages;
      auto batch = make_batch(options, forced);
      CHECK(batch->size().pages == pages);
      for (const SequenceRequest& request : requests) add(*batch, request);
      finish(*batch, found.emplace_back());
    }
    CHECK(found[0].size() == requests.size());
    CHECK(found[0] == found[1]);
  }
}

TEST_CASE("texts that come and go in few pages are what they are alone, whichever go first" *
          doctest::test_suite("rest")) {
  const std::vector<SequenceRequest> requests = branching_requests(every_case() ? 200 : 15);
  std::vector<Text> expected;
  for (const SequenceRequest& request : requests) expected.push_back(alone(request));
  for (const auto& [pages, drafts] : {std::pair(4u, 0u), std::pair(9u, 3u), std::pair(all_pages, 0u)}) {
    CAPTURE(pages);
    SessionOptions options = options_for(5, 48);
    options.size.pages = pages;
    options.size.drafts = drafts;
    options.always_draft = drafts > 0;
    auto batch = make_batch(options);
    REQUIRE(batch->size().pages > 0);
    CHECK(batch->size().pages == std::min(pages, 20u));
    Texts texts;
    std::map<uint32_t, size_t> numbers;
    std::set<uint32_t> stopped;
    uint32_t reused = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const uint32_t id = add(*batch, requests[i]);
      numbers[id] = i;
      for (size_t steps = i * 7 % 5; steps > 0 && batch->sequences(); --steps) {
        step(*batch, texts);
        reused = std::max(reused, batch->reused(id));
      }
      if (i % 6 == 5) {
        stopped.insert(id - 1);
        REQUIRE(batch->stop(id - 1).ok());
      }
    }
    finish(*batch, texts);
    CHECK((pages == 4 || reused >= 64)); // of four, the text that was added has none yet
    CHECK(batch->busy_pages() == 0);
    for (const auto& [id, number] : numbers) {
      if (!stopped.contains(id)) CHECK(texts[id] == expected[number]);
    }
  }
}

TEST_CASE("a text without a slot is kept until it was not used for longest and its pages are needed") {
  SessionOptions options = options_for(2);
  options.size.pages = 7;
  auto batch = make_batch(options);
  REQUIRE(batch->size().pages > 0);
  const auto reused = [&](uint32_t seed, uint32_t more) {
    SequenceRequest request{some_prompt(64, seed), {}, 3};
    request.prompt.push_back(more);
    return reused_by(*batch, request);
  };
  for (uint32_t seed = 1; seed <= 3; ++seed) CHECK(reused(seed, 3) <= 1); // two pages each
  CHECK(reused(1, 4) == 64);                                              // there were slots for two of them
  CHECK(reused(4, 3) <= 1);                                               // in place of the second
  CHECK(reused(1, 5) == 64);
  CHECK(reused(3, 5) == 64);
  CHECK(reused(2, 5) <= 1);
}

TEST_CASE("while a text goes on, the prompt of another one is read in pieces that it may wait for") {
  const SequenceRequest going{some_prompt(5, 1), {}, 150}, newcomer{some_prompt(90, 2), {}, 5};
  const Text expected[] = {alone(going), alone(newcomer)};
  // Seconds, and the steps that the newcomer takes.
  for (const auto& [limit, steps] : {std::pair(0.0, 2u), std::pair(1e-9, 90u), std::pair(1e3, 2u)}) {
    CAPTURE(limit);
    SessionOptions options = options_for(2, 64, 0, 1);
    options.max_stall_seconds = limit;
    auto batch = make_batch(options);
    Texts texts;
    const uint32_t first = add(*batch, going);
    while (texts[first].tokens.size() < 3) step(*batch, texts);
    const size_t before = texts[first].tokens.size();
    const uint32_t second = add(*batch, newcomer);
    while (texts[second].tokens.empty()) step(*batch, texts);
    CHECK(texts[first].tokens.size() - before == steps); // one in each step
    finish(*batch, texts);
    CHECK(texts[first] == expected[0]);
    CHECK(texts[second] == expected[1]);
    // Where nobody waits, it is read as without a limit.
    SequenceRequest third = newcomer;
    third.prompt = some_prompt(90, 3);
    const uint32_t id = add(*batch, third);
    uint32_t alone_steps = 0;
    for (; texts[id].tokens.empty(); ++alone_steps) step(*batch, texts);
    CHECK(alone_steps <= 2);
  }
}

TEST_CASE("errors of a batch, which can be used afterwards") {
  CHECK(says(Batch::create(model(), options_for(9, 8)), {"9 sequences", "8 tokens"}) == "");
  CHECK(says(Batch::create(model(), options_for(0)), {"0 sequences"}) == "");
  auto batch = make_batch(options_for(2));
  CHECK(says(batch->add({{}, {}, 5}), {"prompt is empty"}) == "");
  CHECK(says(batch->add({{1, 2}, {}, 0}), {"max_tokens", "at least 1"}) == "");
  CHECK(says(batch->add({{1, 4000}, {}, 5}), {"token 4000", "0 to 2047"}) == "");
  CHECK(says(batch->add({some_prompt(200, 1), {}, 5}), {"200 tokens", "context of 200"}) == "");
  CHECK(batch->sequences() == 0);
  const SequenceRequest good{some_prompt(4, 1), {}, 6};
  const uint32_t id = add(*batch, good);
  Texts texts;
  finish(*batch, texts);
  CHECK(texts[id] == alone(good));
}

TEST_CASE("a step's outputs are bounded by its sequences") {
  RunnerOptions options;
  options.size = options_for(2).size;
  auto runner = Runner::create(model(), options);
  REQUIRE(runner.ok());
  const std::vector<StepToken> rows = {{5, 0, 0, 0, true}, {6, 0, 1, 0, true}, {7, 1, 1, 0, true}};
  CHECK(says((*runner)->write_step(rows), {"3 outputs", "at most 2"}) == "");
}
