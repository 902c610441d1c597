// Slices of time over the stages of a model.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "support/command/answers.h"
#include "support/command/chats.h"
#include "support/files/fixtures.h"
#include "support/vulkan/device_stages.h"
#include "support/vulkan/faulty_vulkan.h"
#include "support/vulkan/timeline.h"
#include "support/vulkan/vulkan_program.h"

namespace {

using Budget = std::function<float()>;
using Clock = std::chrono::steady_clock;

// Calls `advance` until there is no more to do, and `after` after each call. Returns the number of slices.
uint32_t run_slices(const std::function<pumice_status(pumice_slice*, pumice_error*)>& advance,
                    const std::function<void()>& after = {}) {
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  uint32_t slices = 0;
  uint64_t finished = 0;
  const auto start = Clock::now();
  do {
    require_ok(advance(&slice, &error), error);
    if (after) after();
    slices += slice.dispatches > 0;
    if (slice.dispatches == 0) std::this_thread::yield();
    REQUIRE(slice.finished >= finished);
    finished = slice.finished;
    REQUIRE(Clock::now() - start < std::chrono::minutes(1));
  } while (slice.active);
  return slices;
}

Story tell_in_slices(pumice_session* session, uint32_t tokens, const Budget& budget,
                     const pumice_sampling* sampling = nullptr, uint32_t* slices = nullptr) {
  begin(session, prompt, tokens, sampling);
  Story story;
  const uint32_t count = run_slices(
      [&](pumice_slice* slice, pumice_error* error) {
        return pumice_work_advance(pumice_session_work(session), budget(), nullptr, slice, error);
      },
      [&] { take_events(session, story); });
  if (slices) *slices = count;
  return story;
}

struct Cut {
  std::vector<pumice_device*> devices;
  Layers layers;
};

// Without validation layers before 1.3.250, for a test in which theirs of Debian 12 crash once in fifty runs:
// a command pool is reset, and they call what is no longer there. They never do without them.
class NoOldLayers {
public:
  NoOldLayers() {
#ifndef _WIN32
    const auto instance = *pumice::Instance::create({});
    VkLayerProperties layers[64];
    uint32_t count = std::size(layers);
    (void)instance->table().vkEnumerateInstanceLayerProperties(&count, layers);
    old_ = std::any_of(layers, layers + count, [](const VkLayerProperties& layer) {
      return std::string_view(layer.layerName) == "VK_LAYER_KHRONOS_validation" &&
             layer.specVersion < VK_MAKE_API_VERSION(0, 1, 3, 250);
    });
    old_ = old_ && !std::getenv(name);
    if (old_) setenv(name, "1", 1);
#endif
  }
  ~NoOldLayers() {
#ifndef _WIN32
    if (old_) unsetenv(name);
#endif
  }

private:
  static constexpr const char* name = "PUMICE_TEST_NO_VALIDATION";
  bool old_ = false;
};

} // namespace

TEST_CASE("slices of any size over stages give the text of one device") {
  const DeviceHandle &device = shared_device(), &first = shared_device(1), &second = shared_device(2);
  const ModelHandle whole = load(device.get());
  const pumice_sampling sampling = warm();
  const Story expected = tell(make_session(whole.get(), small_options()).get(), prompt, 24, &sampling);
  REQUIRE(expected.tokens.size() == 24);
  const Cut cuts[] = {{{first.get(), device.get()}, {2, 3}},
                      {{first.get(), second.get(), device.get()}, {1, 3, 1}},
                      {{device.get(), device.get()}, {4, 1}}}; // one device twice
  for (const Cut& cut : cuts) {
    CAPTURE(cut.layers);
    const ModelHandle model = load_stages(cut.devices, cut.layers);
    const SessionHandle owner = make_session(model.get(), small_options());
    pumice_session* const session = owner.get();
    std::vector<uint32_t> slices;
    for (const float budget : {1.0f, 300.0f, 1e6f}) {
      CAPTURE(budget);
      CHECK(tell_in_slices(
                session, 24, [&] { return budget; }, &sampling, &slices.emplace_back()) == expected);
    }
    MESSAGE(slices.front() << " slices of 1 us, " << slices.back() << " of 1 s");
    CHECK(slices.front() > 5 * slices.back());
    CHECK(slices.back() >= 24 * cut.layers.size()); // each stage has a slice of its own
    std::mt19937 random(1);
    std::exponential_distribution<float> budgets(1 / 400.0f);
    CHECK(tell_in_slices(
              session, 24, [&] { return 1 + budgets(random); }, &sampling) == expected);
    CHECK(tell(session, prompt, 24, &sampling) == expected); // whole steps

    // The rest of a text that began in slices, and slices after whole steps.
    begin(session, prompt, 24, &sampling);
    Story story;
    pumice_slice slice = {sizeof slice};
    pumice_error error;
    for (int i = 0; i < 40; ++i)
      require_ok(pumice_work_advance(pumice_session_work(session), 200, nullptr, &slice, &error), error);
    require_ok(pumice_session_run(session, &error), error);
    take_events(session, story);
    CHECK(story == expected);
    pumice_sampling stopped = sampling;
    stopped.stop_tokens = &expected.tokens[9];
    stopped.stop_token_count = 1;
    const Story shorter = tell(session, prompt, 24, &stopped);
    CHECK(shorter.finish_reason == PUMICE_FINISH_STOP);
    CHECK(tell_in_slices(
              session, 24, [] { return 1e5f; }, &stopped) == shorter);
    CHECK(tell(session, prompt, 24, &stopped) == shorter);
  }
}

TEST_CASE("slices over stages of models of other kinds: windows, states, experts") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  for (const char* name : {"gemma2", "qwen3-next", "mixtral-moe"}) {
    CAPTURE(name);
    const std::string path = fixtures().model(name).string();
    const Answers answers(fixtures().model(name) / "expected.safetensors");
    const std::vector<uint32_t> tokens = answers.ids("input_ids", 0);
    const auto told = [&](pumice_model* model, bool in_slices) {
      pumice_session_options options = small_options();
      options.chunk = 3;
      const SessionHandle session = make_session(model, options);
      pumice_request request = {sizeof request};
      request.tokens = tokens.data();
      request.token_count = std::min<size_t>(tokens.size(), 20);
      request.max_tokens = 8;
      request.ignore_end = true;
      pumice_error error;
      require_ok(pumice_session_generate(session.get(), &request, &error), error);
      if (in_slices) {
        int slices = 0;
        run_slices([&](pumice_slice* slice, pumice_error* why) {
          const pumice_status status =
              pumice_work_advance(pumice_session_work(session.get()), 100, nullptr, slice, why);
          // Not so often that a step never comes to its end.
          const bool discards = slice->dispatches > 0 && (++slices == 5 || slices == 21 || slices == 90);
          if (discards) require_ok(pumice_work_discard(pumice_session_work(session.get()), why), *why);
          return status;
        });
        CHECK(slices > 90);
      } else {
        require_ok(pumice_session_run(session.get(), &error), error);
      }
      return tokens_of(session.get());
    };
    const ModelHandle whole = load(device.get(), path);
    const ModelHandle staged = load_stages({first.get(), device.get()}, {0, 0}, path);
    CHECK(told(staged.get(), true) == told(whole.get(), false));
  }
}

TEST_CASE("batches in slices over stages, one text of which is dropped in the middle") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const ModelHandle whole = load(device.get());
  const ModelHandle staged = load_stages({first.get(), device.get()}, {2, 3});
  const pumice_sampling sampling = warm();
  const char* prompts[] = {"Once upon a time", prompt, "Lily and Tom", "One day a dog"};
  constexpr uint32_t dropped = 2; // ids begin at 1
  enum class Steps { in_one, sliced, mixed };
  const auto texts_of = [&](pumice_model* model, Steps steps, float budget) {
    const BatchHandle batch = two_at_a_time(model, prompts, sampling);
    pumice_error error;
    std::map<uint32_t, Story> told;
    const auto take = [&] {
      while (const pumice_event* event = pumice_batch_poll(batch.get()))
        add_event(*event, told[event->text_id]);
      if (told[dropped].tokens.size() < 3) return;
      require_ok(pumice_batch_drop(batch.get(), dropped, &error), error);
    };
    const auto step = [&] {
      bool active = true;
      require_ok(pumice_batch_step(batch.get(), &active, &error), error);
      take();
      return active;
    };
    const auto advance = [&](pumice_slice* slice, pumice_error* why) {
      return pumice_work_advance(pumice_batch_work(batch.get()), budget, nullptr, slice, why);
    };
    if (steps == Steps::sliced) run_slices(advance, take);
    for (bool active = true; active && steps != Steps::sliced;) {
      active = step();
      pumice_slice slice = {sizeof slice};
      for (int i = 0; active && steps == Steps::mixed && i < 7; ++i) {
        require_ok(advance(&slice, &error), error);
        take();
        active = slice.active;
      }
    }
    CHECK(told[dropped].tokens.size() >= 3);
    told.erase(dropped); // what comes of it depends on when it is heard
    return told;
  };
  const auto expected = texts_of(whole.get(), Steps::in_one, 0);
  REQUIRE(expected.size() == 3);
  CHECK(texts_of(staged.get(), Steps::in_one, 0) == expected);
  for (const float budget : {1.0f, 500.0f, 1e6f}) {
    CAPTURE(budget);
    CHECK(texts_of(staged.get(), Steps::sliced, budget) == expected);
    CHECK(texts_of(staged.get(), Steps::mixed, budget) == expected);
  }
}

TEST_CASE("chats in slices over stages") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const std::string path = (pretrained_folder() / "chat-2m.gguf").string();
  const ModelHandle whole = load(device.get(), path);
  const ModelHandle staged = load_stages({first.get(), device.get()}, {0, 0}, path);
  const auto answers_of = [&](pumice_model* model, bool in_slices) {
    pumice_session_options options = small_options();
    options.context = 256;
    const SessionHandle session = make_session(model, options);
    pumice_error error;
    const ChatHandle chat = make_chat(model);
    std::vector<Story> answers;
    for (const char* question : {"What does a cow say?", "And a dog?"}) {
      pumice_message message = {sizeof message};
      message.role = "user";
      message.content = question;
      require_ok(pumice_chat_add(chat.get(), &message, &error), error);
      pumice_request request = {sizeof request};
      request.chat = chat.get();
      request.max_tokens = 24;
      require_ok(pumice_session_generate(session.get(), &request, &error), error);
      if (in_slices) {
        run_slices([&](pumice_slice* slice, pumice_error* why) {
          return pumice_work_advance(pumice_session_work(session.get()), 400, nullptr, slice, why);
        });
      } else {
        require_ok(pumice_session_run(session.get(), &error), error);
      }
      take_events(session.get(), answers.emplace_back());
    }
    return answers;
  };
  const std::vector<Story> expected = answers_of(whole.get(), false);
  CHECK_FALSE(expected.front().tokens.empty());
  CHECK(answers_of(staged.get(), true) == expected);
  CHECK(answers_of(staged.get(), false) == expected);
}

TEST_CASE("stages in the program's own command buffers: those on its device are recorded there") {
  VulkanProgram program;
  const DeviceHandle other = make_device(), device = program.device();
  const Story expected = expected_story(16);
  const Cut cuts[] = {{{other.get(), device.get()}, {2, 3}}, {{device.get(), device.get()}, {2, 3}}};
  for (const Cut& cut : cuts) {
    const bool alone = cut.devices[0] == device.get();
    CAPTURE(alone);
    const ModelHandle model = load_stages(cut.devices, cut.layers);
    const SessionHandle session = small_session(model.get());
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    for (const bool discards : {false, true}) {
      CAPTURE(discards);
      Frames frames(program);
      begin(session.get(), prompt, 16);
      Story story;
      int discarded = 0;
      for (int frame = 0; frame == 0 || slice.active; ++frame) {
        REQUIRE(frame < 20000);
        const VkCommandBuffer commands = frames.begin();
        require_ok(pumice_work_record(pumice_session_work(session.get()), commands, 1000, &slice, &error),
                   error);
        frames.end(commands);
        take_events(session.get(), story);
        // Not so often that a step never comes to its end.
        if (discards && slice.dispatches > 0 && discarded < 3 && frame >= 20 * discarded) {
          if (alone) CHECK(pumice_session_run(session.get(), &error) == PUMICE_NOT_READY);
          require_ok(pumice_work_discard(pumice_session_work(session.get()), &error), error);
          ++discarded;
          continue;
        }
        program.submit(commands);
        if (frame % 3 == 0) program.wait();
      }
      program.wait();
      CHECK(story == expected);
      CHECK(discarded == (discards ? 3 : 0));
      CHECK(slice.finished > 0);
      CHECK(slice.measured_us > 0);
    }
  }
}

TEST_CASE("slices over stages do not wait, and signal semaphores") {
  const NoOldLayers layers;
  VulkanProgram program;
  const DeviceHandle other = make_device(), device = program.device();
  const Story expected = expected_story(6);
  const Cut cuts[] = {{{other.get(), device.get()}, {2, 3}}, {{device.get(), device.get()}, {2, 3}}};
  for (const Cut& cut : cuts) {
    const bool alone = cut.devices[0] == device.get();
    CAPTURE(alone);
    const ModelHandle model = load_stages(cut.devices, cut.layers);
    const SessionHandle session = small_session(model.get());
    begin(session.get(), prompt, 6);
    Story story;
    pumice_slice slice = {sizeof slice};
    pumice_error error;
    {
      // The program's device waits for a semaphore, with all that is submitted to it.
      const Timeline timeline(device.get());
      uint64_t value = 1;
      for (int call = 0; call < 200; ++call, ++value) {
        require_ok(timeline.advance(session.get(), 1e6f, value, value + 1, &slice, &error), error);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      CHECK(slice.dispatches == 0);
      CHECK(slice.active);
      take_events(session.get(), story);
      CHECK(story.tokens.empty());
      timeline.signal(1);
      CHECK(timeline.reaches(value));
    }
    run_slices(
        [&](pumice_slice* to, pumice_error* why) {
          return pumice_work_advance(pumice_session_work(session.get()), 2000, nullptr, to, why);
        },
        [&] { take_events(session.get(), story); });
    CHECK(story == expected);
  }
}

TEST_CASE("a text in slices over stages can be cancelled anywhere") {
  const DeviceHandle first = make_device(), device = make_device();
  const ModelHandle model = load_stages({first.get(), device.get()}, {2, 3});
  const SessionHandle owner = make_session(model.get(), small_options());
  pumice_session* const session = owner.get();
  const auto budget = [] { return 300.0f; };
  const Story expected = tell_in_slices(session, 6, budget); // costs are learned
  uint32_t slices = 0;
  CHECK(tell_in_slices(session, 6, budget, nullptr, &slices) == expected);
  REQUIRE(slices > 12);
  pumice_error error;
  pumice_slice slice = {sizeof slice};
  for (uint32_t after = 0; after < slices / 2; after += slices / 12) { // well before its end
    CAPTURE(after);
    begin(session, prompt, 6);
    for (uint32_t i = 0; i < after;) {
      require_ok(pumice_work_advance(pumice_session_work(session), 300, nullptr, &slice, &error), error);
      i += slice.dispatches > 0;
    }
    pumice_work_cancel(pumice_session_work(session));
    CHECK(pumice_work_advance(pumice_session_work(session), 300, nullptr, &slice, &error) ==
          PUMICE_CANCELLED);
    require_ok(pumice_work_advance(pumice_session_work(session), 300, nullptr, &slice, &error), error);
    CHECK_FALSE(slice.active);
    Story ended;
    take_events(session, ended);
    CHECK(ended.finish_reason == PUMICE_FINISH_CANCELLED);
  }
  CHECK(tell_in_slices(session, 6, budget) == expected);
  CHECK(tell(session, prompt, 6) == expected);
}

TEST_CASE("a device that is lost in a slice of a stage: the text goes on with a model that is loaded again") {
  FaultyVulkan vulkan;
  const Story expected = expected_story(12);
  pumice_device_options faulty = {sizeof faulty}, sound = {sizeof sound};
  faulty.get_instance_proc_addr = FaultyVulkan::get_instance_proc_addr;
  for (const bool first_is_lost : {true, false}) {
    for (const int after : {1, 30}) { // calls
      CAPTURE(first_is_lost);
      CAPTURE(after);
      vulkan.rest();
      const DeviceHandle first = make_device(first_is_lost ? faulty : sound);
      const DeviceHandle last = make_device(first_is_lost ? sound : faulty);
      const ModelHandle model = load_stages({first.get(), last.get()}, {2, 3});
      const SessionHandle owner = small_session(model.get()), other = small_session(model.get());
      pumice_session* const session = owner.get();
      pumice_error error;
      pumice_slice slice = {sizeof slice};
      Story story;
      begin(session, prompt, 12);
      begin(other.get(), prompt, 12);
      require_ok(pumice_work_advance(pumice_session_work(other.get()), 1000, nullptr, &slice, &error), error);
      for (int i = 0; i < after; ++i) {
        require_ok(pumice_work_advance(pumice_session_work(session), 1000, nullptr, &slice, &error), error);
        take_events(session, story);
      }
      vulkan.count();
      vulkan.fail_next("vkQueueSubmit", VK_ERROR_DEVICE_LOST);
      pumice_status status = PUMICE_OK;
      const auto start = Clock::now();
      while (status == PUMICE_OK && Clock::now() - start < std::chrono::seconds(20)) {
        status = pumice_work_advance(pumice_session_work(session), 1000, nullptr, &slice, &error);
        take_events(session, story);
      }
      CHECK(status == PUMICE_DEVICE_LOST);
      CAPTURE(error.message);
      if (first_is_lost) CHECK(std::string(error.message).find("layers 0 to 1") != std::string::npos);
      status = PUMICE_OK;
      while (status == PUMICE_OK && Clock::now() - start < std::chrono::seconds(40)) {
        status = pumice_work_advance(pumice_session_work(other.get()), 1000, nullptr, &slice, &error);
      }
      CHECK(status == PUMICE_DEVICE_LOST);
      vulkan.rest();
      const DeviceHandle &new_first = shared_device(), &new_last = shared_device(1);
      const ModelHandle reloaded = load_stages({new_first.get(), new_last.get()}, {4, 1});
      require_ok(pumice_session_resume(session, reloaded.get(), &error), error);
      run_slices(
          [&](pumice_slice* to, pumice_error* why) {
            return pumice_work_advance(pumice_session_work(session), 1000, nullptr, to, why);
          },
          [&] { take_events(session, story); });
      CHECK(story == expected);
    }
  }
}

TEST_CASE("sessions over the same stages, some in slices and some in whole steps of other threads") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const ModelHandle model = load_stages({first.get(), device.get()}, {2, 3});
  const Story expected = tell(make_session(model.get(), small_options()).get(), prompt, 20);
  std::vector<SessionHandle> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(make_session(model.get(), small_options()));
  std::vector<Story> told(sessions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i) {
    threads.emplace_back([&, i] {
      pumice_session* const session = sessions[i].get();
      pumice_error error;
      pumice_request request = {sizeof request};
      request.text = prompt;
      request.max_tokens = 20;
      if (pumice_session_generate(session, &request, &error) != PUMICE_OK) return;
      pumice_slice slice = {sizeof slice};
      slice.active = i % 2 == 0;
      if (!slice.active && pumice_session_run(session, &error) != PUMICE_OK) return;
      while (slice.active &&
             pumice_work_advance(pumice_session_work(session), 500, nullptr, &slice, &error) == PUMICE_OK) {
        take_events(session, told[i]);
      }
      take_events(session, told[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Story& each : told) CHECK(each == expected);
}

TEST_CASE("warm-up over stages makes the first slices stay within their budgets") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const ModelHandle model = load_stages({first.get(), device.get()}, {2, 3});
  pumice_session_options options = small_options();
  options.warm_up = true;
  const SessionHandle session = make_session(model.get(), options);
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  require_ok(pumice_work_advance(pumice_session_work(session.get()), 1000, nullptr, &slice, &error), error);
  CHECK(slice.finished > 0); // those of the warm-up
  CHECK_FALSE(slice.active);
  CHECK(tell_in_slices(session.get(), 8, [] { return 500.0f; }) ==
        tell(make_session(model.get(), small_options()).get(), prompt, 8));
}
