// What decides how a text goes on and where it ends; sessions from others.
#include <atomic>
#include <cmath>
#include <thread>

#include "support/embedding.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

struct Player {
  const DeviceHandle& device = shared_device();
  ModelHandle model = load(device.get());
  SessionHandle session = make(192);

  SessionHandle make(uint32_t context) const {
    pumice_session_options options = {sizeof options};
    options.context = context;
    options.chunk = 16;
    return make_session(model.get(), options);
  }
  uint32_t token(const char* name) const {
    uint32_t found = 0;
    pumice_error error;
    require_ok(pumice_model_find_token(model.get(), name, &found, &error), error);
    return found;
  }
};

// Generates after `text`, in whole steps or in slices, and returns the story.
Story generate(pumice_session* session, pumice_request request, const char* text, bool in_slices = false) {
  request.struct_size = sizeof request;
  request.text = text;
  request.new_conversation = true;
  if (request.max_tokens == 0) request.max_tokens = 40;
  return generated_story(session, request, in_slices);
}

Story go_on(pumice_session* session, uint32_t tokens) {
  pumice_request request = {sizeof request};
  request.max_tokens = tokens;
  return generated_story(session, request);
}

} // namespace

TEST_CASE("a text ends before a stop string, wherever tokens and slices cut it") {
  const Player player;
  const Story whole = generate(player.session.get(), {}, prompt);
  // From the middle of a token to the middle of another one.
  const size_t at = whole.text.size() / 2;
  const std::string stop = whole.text.substr(at, 7);
  const std::string before = whole.text.substr(0, whole.text.find(stop));
  const char* stops[] = {"no such words", stop.c_str()};
  pumice_request request = {};
  request.stops = stops;
  request.stop_count = 2;
  for (const bool in_slices : {false, true}) {
    CAPTURE(in_slices);
    const Story story = generate(player.session.get(), request, prompt, in_slices);
    CHECK(story.text == before);
    CHECK(story.finish_reason == PUMICE_FINISH_STOP);
    // The conversation has the token that completes the string, and none after it.
    const std::vector<uint32_t> tokens = tokens_of(player.session.get());
    const size_t added = story.tokens.size();
    REQUIRE(added < whole.tokens.size());
    CHECK(std::equal(story.tokens.begin(), story.tokens.end(), whole.tokens.begin()));
    CHECK(tokens.back() == whole.tokens[added - 1]);
    // It goes on as the whole text did.
    const Story rest = go_on(player.session.get(), static_cast<uint32_t>(whole.tokens.size() - added));
    CHECK(
        std::equal(rest.tokens.begin(), rest.tokens.end(), whole.tokens.begin() + static_cast<long>(added)));
  }
  request.stop_count = 1; // one that does not come
  CHECK(generate(player.session.get(), request, prompt) == whole);
}

TEST_CASE("biases, and typical sampling") {
  const Player player;
  const Story plain = generate(player.session.get(), {}, prompt);
  const pumice_logit_bias biases[] = {
      {plain.tokens[0], -INFINITY}, {player.token("▁dog"), 60}, {player.token("▁dog"), 40}};
  pumice_sampling sampling = {sizeof sampling};
  sampling.logit_biases = biases;
  sampling.logit_bias_count = 1;
  pumice_request request = {};
  request.sampling = &sampling;
  CHECK(generate(player.session.get(), request, prompt).tokens[0] != plain.tokens[0]);
  sampling.logit_bias_count = 3;
  request.max_tokens = 3;
  CHECK(generate(player.session.get(), request, prompt).text == " dog dog dog");

  sampling = {sizeof sampling};
  sampling.temperature = 2;
  sampling.seed = 5;
  request.max_tokens = 30;
  const Story wild = generate(player.session.get(), request, prompt);
  sampling.typical_p = 0.2f;
  CHECK(generate(player.session.get(), request, prompt).text != wild.text);
}

TEST_CASE("samplers are applied in the order that is asked for") {
  const Player player;
  pumice_request request = {};
  request.max_tokens = 20;
  const Story greedy = generate(player.session.get(), request, prompt);
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 2;
  sampling.top_k = 1;
  sampling.seed = 5;
  request.sampling = &sampling;
  const auto told = [&](const char* samplers) {
    sampling.samplers = samplers;
    return generate(player.session.get(), request, prompt).text;
  };
  CHECK(told(nullptr) == greedy.text);
  CHECK(told("top_k;temperature") == greedy.text);
  const std::string wild = told("temperature"); // top_k does nothing
  CHECK(wild != greedy.text);
  CHECK(told("t") == wild);
  // Of a flat distribution, min_p leaves more.
  sampling.top_k = 0;
  sampling.min_p = 0.3f;
  CHECK(told("min_p;temperature") != told("temperature;min_p"));
}

TEST_CASE("events have log-probabilities where they are asked for") {
  const Player player;
  pumice_sampling sampling = {sizeof sampling};
  sampling.log_probabilities = 3;
  pumice_request request = {sizeof request};
  request.text = prompt;
  request.max_tokens = 8;
  request.sampling = &sampling;
  pumice_error error;
  require_ok(pumice_session_generate(player.session.get(), &request, &error), error);
  require_ok(pumice_session_run(player.session.get(), &error), error);
  size_t tokens = 0;
  while (const pumice_event* event = pumice_session_poll(player.session.get())) {
    if (event->type == PUMICE_EVENT_END) {
      CHECK(event->top_count == 0);
      continue;
    }
    ++tokens;
    REQUIRE(event->top_count == 3);
    CHECK(event->top[0].token == event->token); // without a temperature, the most probable one
    CHECK(event->top[0].log_probability == event->log_probability);
    CHECK(event->log_probability < 0);
    CHECK(event->top[0].log_probability >= event->top[1].log_probability);
    CHECK(event->top[1].log_probability >= event->top[2].log_probability);
    double sum = 0;
    for (uint32_t i = 0; i < 3; ++i) sum += std::exp(double{event->top[i].log_probability});
    CHECK(sum <= 1.00001);
  }
  CHECK(tokens == 8);
}

TEST_CASE("a session is saved to memory, and restored from it") {
  const Player player;
  generate(player.session.get(), {}, prompt);
  std::vector<unsigned char> bytes;
  const pumice_write_function append = [](void* user, const void* more, size_t count) {
    const auto* first = static_cast<const unsigned char*>(more);
    auto& all = *static_cast<std::vector<unsigned char>*>(user);
    all.insert(all.end(), first, first + count);
    return true;
  };
  pumice_error error;
  require_ok(pumice_session_write(player.session.get(), append, &bytes, &error), error);
  const Story expected = go_on(player.session.get(), 12);

  const SessionHandle other = player.make(128);
  require_ok(pumice_session_read(other.get(), bytes.data(), bytes.size(), &error), error);
  CHECK(go_on(other.get(), 12) == expected);

  const pumice_write_function refuse = [](void*, const void*, size_t) { return false; };
  CHECK(pumice_session_write(other.get(), refuse, nullptr, &error) == PUMICE_IO);
  CHECK(pumice_session_write(other.get(), nullptr, nullptr, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_session_read(other.get(), nullptr, 8, &error) == PUMICE_INVALID_ARGUMENT);
  const std::vector<uint32_t> tokens = tokens_of(other.get());
  for (const size_t damaged : {size_t{0}, size_t{9}, bytes.size() / 2, bytes.size() - 1}) {
    bytes[damaged] ^= 1;
    CHECK(pumice_session_read(other.get(), bytes.data(), bytes.size(), &error) == PUMICE_INVALID_FILE);
    bytes[damaged] ^= 1;
    CHECK(pumice_session_read(other.get(), bytes.data(), damaged, &error) == PUMICE_INVALID_FILE);
  }
  CHECK(tokens_of(other.get()) == tokens);
}

TEST_CASE("a session is created on a thread of its own, with progress, and can be cancelled") {
  const DeviceHandle device = make_device(); // on which no kernel has run yet
  const ModelHandle model = load(device.get());
  pumice_session_options options = {sizeof options};
  options.context = 192;
  options.chunk = 16;
  options.threads = 2;
  std::vector<uint64_t> steps;
  options.progress = [](void* user, uint64_t done, uint64_t total) {
    CHECK(done <= total);
    static_cast<std::vector<uint64_t>*>(user)->push_back(done);
    return true;
  };
  options.progress_user = &steps;
  pumice_session_creation* made = nullptr;
  pumice_error error;
  require_ok(pumice_session_creation_start(model.get(), &options, &made, &error), error);
  StartHandle start(made);
  uint64_t done = 0, total = 0;
  while (!pumice_session_creation_poll(made, &done, &total)) std::this_thread::yield();
  pumice_session_creation_poll(made, &done, &total);
  CHECK(done == total);
  pumice_session* session = nullptr;
  require_ok(pumice_session_creation_finish(made, &session, &error), error);
  const SessionHandle owner(session);
  CHECK(total > 2);
  CHECK(steps.size() > 2);
  CHECK(std::is_sorted(steps.begin(), steps.end()));
  CHECK(generate(session, {}, prompt) == generate(Player().session.get(), {}, prompt));
  CHECK(pumice_session_creation_finish(made, &session, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(session == nullptr);

  options.progress = [](void*, uint64_t, uint64_t) { return false; };
  CHECK(pumice_session_create(model.get(), &options, &session, &error) == PUMICE_CANCELLED);
  // Asks whether to go on only after it has been cancelled.
  static std::atomic<bool> was_cancelled;
  was_cancelled = false;
  options.progress = [](void*, uint64_t, uint64_t) {
    while (!was_cancelled) std::this_thread::yield();
    return true;
  };
  require_ok(pumice_session_creation_start(model.get(), &options, &made, &error), error);
  start.reset(made);
  pumice_session_creation_cancel(made);
  was_cancelled = true;
  CHECK(pumice_session_creation_finish(made, &session, &error) == PUMICE_CANCELLED);
  require_ok(pumice_session_creation_start(model.get(), &options, &made, &error), error);
  start.reset(made); // is destroyed while it runs
}
