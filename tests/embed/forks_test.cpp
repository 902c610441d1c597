// Sessions that begin where others are.
#include <algorithm>

#include "support/command/program.h"
#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/vulkan/faulty_vulkan.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

pumice_session_options options_of(uint32_t context, uint32_t chunk,
                                  pumice_cache_type cache = PUMICE_CACHE_F16) {
  pumice_session_options options = {sizeof options};
  options.context = context;
  options.chunk = chunk;
  options.cache = cache;
  return options;
}

SessionHandle fork(pumice_session* session, const pumice_session_options* options = nullptr) {
  pumice_session* made = nullptr;
  pumice_error error;
  require_ok(pumice_session_fork(session, options, &made, &error), error);
  CHECK(tokens_of(made) == tokens_of(session));
  return SessionHandle(made);
}

// What is said, to the bit.
struct Said {
  std::vector<uint32_t> tokens;
  std::vector<float> log_probabilities;

  bool operator==(const Said&) const = default;
};

Said go_on(pumice_session* session, uint32_t tokens) {
  pumice_sampling sampling = {sizeof sampling};
  sampling.log_probabilities = 1;
  pumice_request request = {sizeof request};
  request.max_tokens = tokens;
  request.sampling = &sampling;
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
  require_ok(pumice_session_run(session, &error), error);
  Said said;
  while (const pumice_event* event = pumice_session_poll(session)) {
    if (event->type != PUMICE_EVENT_TOKEN) continue;
    said.tokens.push_back(event->token);
    said.log_probabilities.push_back(event->log_probability);
  }
  return said;
}

// Reads tokens, and generates one.
void read(pumice_session* session, const std::vector<uint32_t>& tokens) {
  pumice_request request = {sizeof request};
  request.tokens = tokens.data();
  request.token_count = tokens.size();
  request.max_tokens = 1;
  request.new_conversation = true;
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
  require_ok(pumice_session_run(session, &error), error);
}

std::vector<uint32_t> many_tokens(size_t count) {
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<uint32_t>(3 + i * 7 % 300));
  return tokens;
}

} // namespace

TEST_CASE("a fork begins where its session is, and each goes on alone") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = make_session(model.get(), options_of(192, 16));
  const Story whole = tell(session.get(), prompt, 40);
  begin(session.get(), prompt, 40);
  pumice_error error;
  Story first;
  pumice_slice slice = {sizeof slice};
  do { // slices are under way when it ends
    require_ok(pumice_work_advance(pumice_session_work(session.get()), 300, nullptr, &slice, &error), error);
    take_events(session.get(), first);
  } while (first.tokens.size() < 12);
  const SessionHandle made = fork(session.get());
  take_events(session.get(), first);
  const size_t done = first.tokens.size();
  CHECK(done < 40);

  const Said rest = go_on(made.get(), static_cast<uint32_t>(40 - done)); // before the session goes on
  require_ok(pumice_session_run(session.get(), &error), error);
  take_events(session.get(), first);
  CHECK(first == whole);
  CHECK(std::equal(rest.tokens.begin(), rest.tokens.end(), whole.tokens.begin() + static_cast<long>(done)));

  const auto refused = [&](const pumice_session_options& options, pumice_status status, const char* words) {
    pumice_session* none = nullptr;
    CHECK(pumice_session_fork(session.get(), &options, &none, &error) == status);
    CHECK(none == nullptr);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(words) != std::string::npos);
  };
  refused(options_of(16, 16), PUMICE_CONTEXT_FULL, "options.context is 16");
  refused(options_of(192, 16, PUMICE_CACHE_F32), PUMICE_INVALID_ARGUMENT, "options.cache");
  CHECK(tokens_of(session.get()).size() > 40);
}

TEST_CASE("a fork has its session's keys and values, in any cache and with any context") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get());
  for (const pumice_cache_type cache :
       {PUMICE_CACHE_F16, PUMICE_CACHE_F32, PUMICE_CACHE_Q8_0, PUMICE_CACHE_Q4_0}) {
    CAPTURE(cache);
    const SessionHandle session = make_session(model.get(), options_of(192, 16, cache));
    tell(session.get(), prompt, 20);
    std::vector<SessionHandle> forks;
    for (const uint32_t context : {192u, 64u, 500u}) {
      const pumice_session_options options = options_of(context, 8, cache);
      forks.push_back(fork(session.get(), &options));
    }
    forks.push_back(fork(forks[2].get())); // of a fork that has said nothing
    const Said expected = go_on(session.get(), 12);
    for (const SessionHandle& each : forks) CHECK(go_on(each.get(), 12) == expected);
  }
}

TEST_CASE("a fork of a model whose layers see a window") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get(), fixtures().model("mistral-swa").string());
  for (const size_t length :
       {size_t{20}, size_t{60}, size_t{100}}) { // the ring of a session has 64 positions
    CAPTURE(length);
    const SessionHandle session = make_session(model.get(), options_of(256, 16));
    read(session.get(), many_tokens(length));
    std::vector<SessionHandle> forks;
    forks.push_back(fork(session.get()));
    for (const auto& [context, chunk] : {std::pair{256u, 64u}, {128u, 16u}, {128u, 128u}}) {
      const pumice_session_options options = options_of(context, chunk);
      forks.push_back(fork(session.get(), &options));
    }
    const Said expected = go_on(session.get(), 12);
    REQUIRE(expected.tokens.size() == 12);
    for (const SessionHandle& each : forks) CHECK(go_on(each.get(), 12) == expected);
    // Back to where the window begins.
    const std::vector<uint32_t> shorter = many_tokens(length / 2);
    read(session.get(), shorter);
    const Said again = go_on(session.get(), 4);
    for (const SessionHandle& each : forks) {
      read(each.get(), shorter);
      CHECK(go_on(each.get(), 4) == again);
    }
  }
}

TEST_CASE("a fork copies keys and values on the device, in one submission") {
  FaultyVulkan vulkan;
  vulkan.split_memory(true); // the host cannot reach them
  FaultyProgram program(FaultyProgram::Owner::pumice, false);
  program.open_all();
  const auto calls = [&] {
    vulkan.count();
    const SessionHandle made = fork(program.session.get());
    std::pair<int, int> counted;
    for (const FaultyVulkan::Function& function : vulkan.functions()) {
      if (function.name == "vkQueueSubmit") counted.first += function.calls;
      if (function.name == "vkAllocateMemory") counted.second += function.calls;
    }
    vulkan.rest();
    return counted;
  };
  fork(program.session.get()); // compiles what is left
  const auto nothing = calls();
  tell(program.session.get(), prompt, 30);
  const auto conversation = calls();
  CHECK(conversation.first == nothing.first + 1);
  CHECK(conversation.second == nothing.second);
  CHECK(nothing.second > 0);
}

TEST_CASE("continuations are scored beside a conversation, which goes on as if nothing was asked") {
  const ModelHandle model = load(shared_device().get());
  pumice_session_options options = options_of(128, 32, PUMICE_CACHE_F32);
  const SessionHandle asked = make_session(model.get(), options), left = make_session(model.get(), options);
  pumice_error error;
  const char* cat = "play with her dog.";
  pumice_continuation continuations[3] = {};
  continuations[0].text = cat;
  continuations[1].text = "sky because because eat";
  uint32_t tokens[64];
  size_t count = 0;
  require_ok(pumice_model_tokenize(model.get(), cat, 0, tokens, 64, &count, &error), error);
  continuations[2].tokens = tokens;
  continuations[2].token_count = count;
  pumice_continuation_score scores[3] = {};
  CHECK(pumice_session_score(asked.get(), continuations, 3, scores, &error) == PUMICE_INVALID_ARGUMENT);
  begin(asked.get(), prompt, 40);
  begin(left.get(), prompt, 40);
  Story story, other;
  pumice_slice slice = {sizeof slice};
  for (int i = 0; i < 20; ++i) {
    require_ok(pumice_work_advance(pumice_session_work(asked.get()), 2000, nullptr, &slice, &error), error);
    require_ok(pumice_session_score(asked.get(), continuations, 3, scores, &error), error);
    CHECK(scores[0].log_probability < 0);
    CHECK(scores[0].log_probability > scores[1].log_probability);
    CHECK(scores[0].log_probability == doctest::Approx(scores[2].log_probability).epsilon(1e-4));
    CHECK(scores[0].tokens == count);
  }
  require_ok(pumice_session_run(asked.get(), &error), error);
  require_ok(pumice_session_run(left.get(), &error), error);
  take_events(asked.get(), story);
  take_events(left.get(), other);
  CHECK(story == other);
  CHECK(tokens_of(asked.get()) == tokens_of(left.get()));

  continuations[1].tokens = tokens;
  CHECK(pumice_session_score(asked.get(), continuations, 3, scores, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("continuations[1]") != std::string::npos);
  continuations[1] = {};
  CHECK(pumice_session_score(asked.get(), continuations, 2, scores, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_session_score(asked.get(), nullptr, 2, scores, &error) == PUMICE_INVALID_ARGUMENT);
}
