// Several threads at a time: many that generate on one device, models that come and go, callbacks.
// ThreadSanitizer watches these tests too.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "support/embedding.h"
#include "support/files/random_model.h"
#include "support/vulkan/gpu.h"

namespace {

// Runs tasks in a thread each, all at once. A check that fails ends its own thread alone.
void together(const std::vector<std::function<void()>>& tasks) {
  std::latch start(static_cast<ptrdiff_t>(tasks.size()));
  std::vector<std::thread> threads;
  for (const std::function<void()>& task : tasks) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        task();
      } catch (const doctest::detail::TestFailureException&) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A decoder without a tokenizer, whose weights are quantised while it is loaded.
ModelHandle load_random(pumice_device* device) {
  static const TemporaryFolder* folder = [] {
    static const TemporaryFolder written;
    write_random_model(written, {{"model_type", "llama"},
                                 {"vocab_size", 500},
                                 {"hidden_size", 64},
                                 {"num_hidden_layers", 3},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"intermediate_size", 96},
                                 {"max_position_embeddings", 128},
                                 {"rms_norm_eps", 1e-5},
                                 {"tie_word_embeddings", false}});
    return &written;
  }();
  const std::string path = folder->path().string();
  pumice_load_options options = {sizeof options};
  options.quantize = "Q8_0";
  options.threads = 2;
  return load(device, path, options);
}

// One of many things to say: tokens, with a seed of its own.
class Speech {
public:
  explicit Speech(uint32_t number) : number_(number) {}

  static SessionHandle make(pumice_model* model,
                            pumice_session_options options = {sizeof(pumice_session_options)}) {
    options.context = 48;
    options.chunk = 8;
    return make_session(model, options);
  }
  void begin(pumice_session* session, uint32_t max_tokens = 12) const {
    uint32_t prompt[13];
    for (uint32_t i = 0; i < 13; ++i) prompt[i] = 20 + (number_ * 37 + i * i * 11) % 400;
    pumice_sampling sampling = {sizeof sampling};
    sampling.temperature = 1;
    sampling.top_k = 40;
    sampling.seed = number_;
    pumice_request request = {sizeof request};
    request.tokens = prompt;
    request.token_count = std::size(prompt);
    request.new_conversation = request.ignore_end = true;
    request.max_tokens = max_tokens;
    request.sampling = &sampling;
    pumice_error error;
    require_ok(pumice_session_generate(session, &request, &error), error);
  }
  Story run(pumice_session* session) const {
    begin(session);
    pumice_error error;
    require_ok(pumice_session_run(session, &error), error);
    Story story;
    take_events(session, story);
    return story;
  }

private:
  uint32_t number_;
};

// Two sessions of a thread take turns, a slice each.
std::array<Story, 2> run_in_turns(const std::array<SessionHandle, 2>& sessions,
                                  const std::array<Speech, 2>& speeches) {
  std::array<Story, 2> stories;
  for (size_t i = 0; i < 2; ++i) speeches[i].begin(sessions[i].get());
  for (bool active = true; active;) {
    active = false;
    uint32_t dispatches = 0;
    for (size_t i = 0; i < 2; ++i) {
      pumice_slice slice = {sizeof slice};
      pumice_error error;
      require_ok(pumice_work_advance(pumice_session_work(sessions[i].get()), 800, nullptr, &slice, &error),
                 error);
      take_events(sessions[i].get(), stories[i]);
      active = active || slice.active;
      dispatches += slice.dispatches;
    }
    if (dispatches == 0) std::this_thread::yield();
  }
  return stories;
}

} // namespace

TEST_CASE("eight threads with sessions of two models give the texts that each gives alone, while others come "
          "and go") {
  constexpr size_t speakers = 8, rounds = 2;
  const TemporaryFolder cache;
  const std::string cache_path = cache.path().string();
  pumice_device_options device_options = {sizeof device_options};
  device_options.cache_folder = cache_path.c_str();
  const DeviceHandle device = make_device(device_options);
  const ModelHandle models[] = {load(device.get()), load_random(device.get())};
  const auto model_of = [&](size_t speaker) { return models[speaker % 2].get(); };

  std::array<std::array<Story, 2>, speakers> expected;
  const auto speeches_of = [](size_t speaker) {
    const auto number = static_cast<uint32_t>(2 * speaker);
    return std::array{Speech(number), Speech(number + 1)};
  };
  for (size_t speaker = 0; speaker < speakers; ++speaker) {
    const SessionHandle session = Speech::make(model_of(speaker));
    for (size_t i = 0; i < 2; ++i) expected[speaker][i] = speeches_of(speaker)[i].run(session.get());
  }
  CHECK(expected[0][0].tokens.size() == 12);
  CHECK_FALSE(expected[0][0] == expected[0][1]);
  const uint64_t before = allocated(device.get());

  std::vector<std::function<void()>> tasks;
  for (size_t speaker = 0; speaker < speakers; ++speaker) {
    tasks.push_back([&, speaker] {
      const std::array sessions = {Speech::make(model_of(speaker)), Speech::make(model_of(speaker))};
      for (size_t round = 0; round < rounds; ++round) {
        const std::array<Speech, 2> speeches = speeches_of(speaker);
        CHECK(run_in_turns(sessions, speeches) == expected[speaker]);
        for (size_t i = 0; i < 2; ++i) CHECK(speeches[i].run(sessions[1 - i].get()) == expected[speaker][i]);
      }
    });
  }
  // Models that are loaded, used after their handles are gone, and unloaded.
  tasks.push_back([&] {
    for (size_t round = 0; round < 6; ++round) {
      ModelHandle model = round % 2 ? load(device.get()) : load_random(device.get());
      const SessionHandle session = Speech::make(model.get());
      model.reset();
      CHECK(Speech(0).run(session.get()).tokens.size() == 12);
    }
  });
  // Sessions that are destroyed in the middle of their work.
  tasks.push_back([&] {
    for (size_t round = 0; round < 12; ++round) {
      const SessionHandle session = Speech::make(model_of(round));
      Speech(1).begin(session.get());
      pumice_error error;
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 500, nullptr, nullptr, &error),
                 error);
    }
  });
  together(tasks);
  CHECK(allocated(device.get()) == before);
}

namespace {

// Where the messages of a device came from, beside those that no test expects.
struct Messages {
  std::mutex mutex;
  std::string expected; // a part of those that are
  std::set<std::thread::id> threads;

  static void log(void* user, pumice_log_level level, const char* message) {
    auto* own = static_cast<Messages*>(user);
    std::lock_guard lock(own->mutex);
    if (level != PUMICE_LOG_WARNING) return;
    if (std::strstr(message, own->expected.c_str())) {
      own->threads.insert(std::this_thread::get_id());
    } else {
      validation_messages().push_back(message);
    }
  }
};

// What a session's callback was told.
struct Listener {
  pumice_session* session = nullptr;
  std::thread::id thread;
  Story story;
  size_t strange = 0;     // calls by another thread, or after the end
  size_t cancel_at = 100; // tokens after which it has enough

  static void hear(void* user, const pumice_event* event) {
    auto* own = static_cast<Listener*>(user);
    own->strange +=
        own->thread != std::this_thread::get_id() || own->story.finish_reason != PUMICE_FINISH_NONE;
    add_event(*event, own->story);
    if (own->story.tokens.size() >= own->cancel_at) pumice_work_cancel(pumice_session_work(own->session));
  }
};

} // namespace

TEST_CASE("events come in the thread that runs their session, messages in any that calls") {
  constexpr uint32_t threads = 4;
  const TemporaryFolder folder;
  // Nothing can be kept in a folder that is a file: each load says so.
  const std::string no_folder = folder.write("file", "").string();
  Messages messages;
  messages.expected = no_folder;
  pumice_device_options device_options = {sizeof device_options};
  device_options.cache_folder = no_folder.c_str();
  device_options.log = Messages::log;
  device_options.log_user = &messages;
  const DeviceHandle device = make_device(device_options);
  const ModelHandle shared = load(device.get());
  std::array<Story, threads> expected;
  for (uint32_t i = 0; i < threads; ++i) {
    expected[i] = Speech(i).run(Speech::make(shared.get()).get());
    REQUIRE(expected[i].tokens.size() == 12);
  }
  CHECK(messages.threads.size() == 1);

  std::vector<std::function<void()>> tasks;
  for (uint32_t i = 0; i < threads; ++i) {
    tasks.push_back([&, i] {
      const ModelHandle own = load(device.get());
      Listener listener;
      listener.thread = std::this_thread::get_id();
      pumice_session_options options = {sizeof options};
      options.on_event = Listener::hear;
      options.user = &listener;
      const SessionHandle session = Speech::make(i % 2 ? own.get() : shared.get(), options);
      listener.session = session.get();
      for (const bool cancels : {false, true}) {
        listener.story = {};
        listener.cancel_at = cancels ? 5 : 100;
        Speech(i).begin(session.get());
        pumice_error error;
        const pumice_status status = pumice_session_run(session.get(), &error);
        CHECK(status == (cancels ? PUMICE_CANCELLED : PUMICE_OK));
        if (!cancels) CHECK(listener.story == expected[i]);
        const std::vector<uint32_t>& tokens = listener.story.tokens;
        CHECK(tokens.size() == (cancels ? 5 : 12));
        CHECK(std::equal(tokens.begin(), tokens.end(), expected[i].tokens.begin()));
        CHECK(listener.story.finish_reason == (cancels ? PUMICE_FINISH_CANCELLED : PUMICE_FINISH_LENGTH));
        CHECK(listener.strange == 0);
      }
    });
  }
  together(tasks);
  CHECK(messages.threads.size() == threads + 1);
}
