// A model that is cut by layers over several devices, as a program has them.
#include <algorithm>
#include <map>
#include <thread>

#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/skip.h"
#include "support/vulkan/device_stages.h"
#include "support/vulkan/faulty_vulkan.h"
#include "support/vulkan/vulkan_program.h"

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a model in stages says what it says on one device, wherever it is cut") {
  const DeviceHandle &device = shared_device(), &first = shared_device(1), &second = shared_device(2);
  const ModelHandle whole = load(device.get());
  const SessionHandle alone = make_session(whole.get(), small_options());
  const pumice_sampling sampling = warm();
  const Story expected = tell(alone.get(), prompt, 24, &sampling);
  REQUIRE(expected.tokens.size() == 24);
  struct Cut {
    std::vector<pumice_device*> devices;
    Layers layers;
  };
  const Cut cuts[] = {{{first.get(), device.get()}, {0, 0}},
                      {{first.get(), device.get()}, {1, 4}},
                      {{first.get(), second.get(), device.get()}, {1, 3, 1}},
                      {{device.get(), device.get()}, {4, 1}}, // one device twice
                      {{device.get()}, {5}}};
  for (const Cut& cut : cuts) {
    CAPTURE(cut.layers);
    const ModelHandle model = load_stages(cut.devices, cut.layers);
    const SessionHandle session = make_session(model.get(), small_options());
    CHECK(tell(session.get(), prompt, 24, &sampling) == expected);
    // Again, and another way to end it.
    CHECK(tell(session.get(), prompt, 24, &sampling) == expected);
    pumice_sampling stopped = sampling;
    stopped.stop_tokens = &expected.tokens[9];
    stopped.stop_token_count = 1;
    const Story shorter = tell(session.get(), prompt, 24, &stopped);
    CHECK(shorter == tell(alone.get(), prompt, 24, &stopped));
    CHECK(shorter.finish_reason == PUMICE_FINISH_STOP);
  }
}

TEST_CASE("models of other kinds in stages: windows, states, experts") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  for (const char* name : {"gemma2", "qwen3-next", "mixtral-moe"}) {
    CAPTURE(name);
    const std::string path = fixtures().model(name).string();
    const Answers answers(fixtures().model(name) / "expected.safetensors");
    const std::vector<uint32_t> tokens = answers.ids("input_ids", 0);
    const auto told = [&](pumice_model* model) {
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
      require_ok(pumice_session_run(session.get(), &error), error);
      return tokens_of(session.get());
    };
    const ModelHandle whole = load(device.get(), path);
    const std::vector<uint32_t> expected = told(whole.get());
    const ModelHandle staged = load_stages({first.get(), device.get()}, {0, 0}, path);
    CHECK(told(staged.get()) == expected);
  }
}

TEST_CASE("sessions in stages: suspended, saved, restored elsewhere, forked") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const ModelHandle whole = load(device.get());
  const ModelHandle staged = load_stages({first.get(), device.get()}, {2, 3});
  const pumice_sampling sampling = warm();
  const SessionHandle alone = make_session(whole.get(), small_options());
  tell(alone.get(), prompt, 20, &sampling);
  const std::vector<uint32_t> all = tokens_of(alone.get());
  const uint64_t loaded_first = allocated(first.get()), loaded = allocated(device.get());
  SessionHandle session = make_session(staged.get(), small_options());
  pumice_error error;
  Story story = tell(session.get(), prompt, 7, &sampling);
  pumice_session* made = nullptr;
  require_ok(pumice_session_fork(session.get(), nullptr, &made, &error), error);
  SessionHandle fork(made);
  CHECK(tokens_of(fork.get()) == tokens_of(session.get()));
  const auto go_on = [&](pumice_session* own, uint32_t tokens) {
    pumice_request request = {sizeof request};
    request.max_tokens = tokens;
    request.sampling = &sampling;
    require_ok(pumice_session_generate(own, &request, &error), error);
    require_ok(pumice_session_run(own, &error), error);
  };
  go_on(fork.get(), 13);
  CHECK(tokens_of(fork.get()) == all);
  fork.reset();
  require_ok(pumice_session_suspend(session.get(), &error), error);
  CHECK(allocated(device.get()) == loaded); // alone's is in it
  CHECK(allocated(first.get()) == loaded_first);
  // It goes on with the model on one device, and back.
  require_ok(pumice_session_resume(session.get(), whole.get(), &error), error);
  go_on(session.get(), 5);
  require_ok(pumice_session_suspend(session.get(), &error), error);
  require_ok(pumice_session_resume(session.get(), staged.get(), &error), error);
  go_on(session.get(), 8);
  CHECK(tokens_of(session.get()) == all);
  std::vector<unsigned char> saved;
  const auto keep = [](void* user, const void* bytes, size_t count) {
    const auto* from = static_cast<const unsigned char*>(bytes);
    static_cast<std::vector<unsigned char>*>(user)->insert(
        static_cast<std::vector<unsigned char>*>(user)->end(), from, from + count);
    return true;
  };
  require_ok(pumice_session_write(session.get(), keep, &saved, &error), error);
  const SessionHandle other = make_session(whole.get(), small_options());
  require_ok(pumice_session_read(other.get(), saved.data(), saved.size(), &error), error);
  CHECK(tokens_of(other.get()) == all);
}

TEST_CASE("batches in stages, and sessions of several threads") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  const ModelHandle whole = load(device.get());
  const ModelHandle staged = load_stages({first.get(), device.get()}, {2, 3});
  const pumice_sampling sampling = warm();
  const char* prompts[] = {"Once upon a time", "One day a dog", "Lily and Tom"};
  const auto texts_of = [&](pumice_model* model) {
    const BatchHandle batch = two_at_a_time(model, prompts, sampling);
    pumice_error error;
    std::map<uint32_t, Story> stories_told;
    for (bool active = true; active;) {
      require_ok(pumice_batch_step(batch.get(), &active, &error), error);
      while (const pumice_event* event = pumice_batch_poll(batch.get()))
        add_event(*event, stories_told[event->text_id]);
    }
    return stories_told;
  };
  const auto expected = texts_of(whole.get());
  CHECK(expected.size() == 3);
  CHECK(texts_of(staged.get()) == expected);

  // Each thread has a session of the same model.
  std::vector<Story> alone, together(4);
  for (size_t i = 0; i < together.size(); ++i) {
    const SessionHandle session = make_session(whole.get(), small_options());
    alone.push_back(tell(session.get(), prompts[i % 3], 20, &sampling));
  }
  std::vector<SessionHandle> sessions;
  for (size_t i = 0; i < together.size(); ++i)
    sessions.push_back(make_session(staged.get(), small_options()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < together.size(); ++i) {
    threads.emplace_back([&, i] {
      pumice_error error;
      pumice_request request = {sizeof request};
      request.text = prompts[i % 3];
      request.max_tokens = 20;
      request.sampling = &sampling;
      if (pumice_session_generate(sessions[i].get(), &request, &error) != PUMICE_OK) return;
      if (pumice_session_run(sessions[i].get(), &error) != PUMICE_OK) return;
      take_events(sessions[i].get(), together[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < together.size(); ++i) CHECK(together[i] == alone[i]);
}

TEST_CASE(
    "a device that is lost in a stage ends its sessions, which go on with a model that is loaded again") {
  FaultyVulkan vulkan;
  const pumice_sampling sampling = warm();
  Story expected;
  {
    const DeviceHandle& device = shared_device();
    const ModelHandle model = load(device.get());
    const SessionHandle session = make_session(model.get(), small_options());
    expected = tell(session.get(), prompt, 20, &sampling);
  }
  pumice_device_options faulty = {sizeof faulty};
  faulty.get_instance_proc_addr = FaultyVulkan::get_instance_proc_addr;
  for (const bool first_is_lost : {true, false}) {
    for (const bool in_order : {true, false}) {
      CAPTURE(first_is_lost);
      CAPTURE(in_order);
      vulkan.rest();
      const pumice_device_options sound = {sizeof sound};
      DeviceHandle first = make_device(first_is_lost ? faulty : sound);
      DeviceHandle last = make_device(first_is_lost ? sound : faulty);
      ModelHandle model = load_stages({first.get(), last.get()}, {2, 3});
      SessionHandle session = make_session(model.get(), small_options());
      SessionHandle other = make_session(model.get(), small_options());
      pumice_error error;
      begin(session.get(), prompt, 20, &sampling);
      vulkan.count();
      vulkan.fail_next("vkQueueSubmit", VK_ERROR_DEVICE_LOST);
      pumice_status status = pumice_session_run(session.get(), &error);
      CHECK(status == PUMICE_DEVICE_LOST);
      CAPTURE(error.message);
      if (first_is_lost) CHECK(contains(error.message, "layers 0 to 1"));
      // The other session hears of it, too, and nothing waits for ever.
      pumice_request request = {sizeof request};
      request.text = prompt;
      status = pumice_session_generate(other.get(), &request, &error);
      if (status == PUMICE_OK) status = pumice_session_run(other.get(), &error);
      CHECK(status == PUMICE_DEVICE_LOST);
      vulkan.rest();
      const DeviceHandle &new_first = shared_device(), &new_last = shared_device(1);
      const ModelHandle reloaded = load_stages({new_first.get(), new_last.get()}, {4, 1});
      require_ok(pumice_session_resume(session.get(), reloaded.get(), &error), error);
      require_ok(pumice_session_run(session.get(), &error), error);
      Story story;
      take_events(session.get(), story);
      CHECK(story == expected);
      if (in_order) continue;
      first.reset();
      model.reset();
      last.reset();
      other.reset();
    }
  }
}

TEST_CASE("stages copy what they hand on where the host's memory cannot be imported, or say what failed") {
  FaultyVulkan vulkan;
  const pumice_sampling sampling = warm();
  pumice_device_options options = {sizeof options};
  options.get_instance_proc_addr = FaultyVulkan::get_instance_proc_addr;
  vulkan.rest();
  const DeviceHandle first = make_device(options), last = make_device(options);
  Story expected;
  {
    const ModelHandle whole = load(last.get());
    const SessionHandle alone = make_session(whole.get(), small_options());
    expected = tell(alone.get(), prompt, 20, &sampling);
  }
  const auto taken = [&] {
    uint64_t sum = 0;
    for (pumice_device* device : {first.get(), last.get()}) {
      pumice_memory_report report = {sizeof report};
      pumice_error error;
      require_ok(pumice_device_memory(device, &report, &error), error);
      sum += report.allocated;
    }
    return sum;
  };
  const uint64_t before = taken();
  const Layers layers = {2, 3};
  ModelHandle model = load_stages({first.get(), last.get()}, layers);
  // A session, whose creation meets what was made to fail, and what it says.
  const auto attempt = [&] {
    pumice_session_options small = small_options();
    pumice_session* made = nullptr;
    pumice_error error;
    const pumice_status status = pumice_session_create(model.get(), &small, &made, &error);
    vulkan.rest();
    const SessionHandle session(made);
    CAPTURE(error.message);
    if (status == PUMICE_OK) {
      CHECK(tell(session.get(), prompt, 20, &sampling) == expected);
    } else {
      CHECK(made == nullptr);
      CHECK(error.message[0] != 0);
    }
    return status;
  };
  CHECK(attempt() == PUMICE_OK); // compiles
  vulkan.count();
  CHECK(attempt() == PUMICE_OK);
  const std::vector<FaultyVulkan::Function> functions = vulkan.functions();
  const auto asks = [](const FaultyVulkan::Function& function) {
    return function.name == "vkGetMemoryHostPointerPropertiesEXT";
  };
  if (std::ranges::find_if(functions, asks)->calls == 0)
    return skip("the device imports no memory of the host");
  for (size_t i = 0; i < functions.size(); ++i) {
    const FaultyVulkan::Function& function = functions[i];
    if (!asks(function) && function.name != "vkAllocateMemory" && function.name != "vkBindBufferMemory")
      continue;
    CAPTURE(function.name);
    int went_on = 0;
    for (int call = 0; call < function.calls; ++call) {
      CAPTURE(call);
      const VkResult error = function.errors[static_cast<size_t>(call) % function.errors.size()];
      vulkan.fail(i, call, error);
      const pumice_status status = attempt();
      if (!vulkan.failed()) continue; // what failed before makes fewer calls
      went_on += status == PUMICE_OK;
      if (asks(function)) CHECK(status == PUMICE_OK);
      if (status == PUMICE_OK) continue;
      model.reset();
      CHECK(taken() == before);
      model = load_stages({first.get(), last.get()}, layers);
    }
    CHECK(went_on > 0); // where it was for importing
  }
  vulkan.refuse_imports(true);
  CHECK(attempt() == PUMICE_OK);
  vulkan.refuse_imports(false);
  model.reset();
  CHECK(taken() == before);
}

TEST_CASE("stages that cannot be are errors with a name") {
  const DeviceHandle &first = shared_device(), &device = shared_device(1);
  pumice_error error;
  const auto refused = [&](const std::vector<pumice_stage>& stages, pumice_status expected,
                           std::string_view words, const std::string& path = stories) {
    pumice_model* model = nullptr;
    CHECK(load_stages(stages, device.get(), path, &model, &error) == expected);
    CAPTURE(error.message);
    CHECK(contains(error.message, words));
    CHECK(model == nullptr);
  };
  refused({{first.get(), 0, 0}, {nullptr, 0, 0}}, PUMICE_INVALID_ARGUMENT,
          "options.stages[1].device is NULL");
  refused({{device.get(), 0, 0}, {first.get(), 0, 0}}, PUMICE_INVALID_ARGUMENT, "options.stages[1].device");
  refused({{first.get(), 2, 0}, {device.get(), 0, 0}}, PUMICE_INVALID_ARGUMENT,
          "options.stages[1].layers is 0");
  refused({{first.get(), 2, 0}, {device.get(), 2, 0}}, PUMICE_INVALID_ARGUMENT, "layers");
  refused({{first.get(), 0, 0}, {device.get(), 0, 0}}, PUMICE_UNSUPPORTED, "options.stages",
          fixtures().model("bert").string());
  pumice_load_options options = {sizeof options};
  options.stage_count = 2;
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_model* none = nullptr;
  CHECK(pumice_model_load(device.get(), &source, &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.stages is NULL"));
  const std::vector<pumice_stage> stages = stages_on({first.get(), device.get()}, {0, 0});
  options.stages = stages.data();
  options.vision = 1;
  CHECK(pumice_model_load(device.get(), &source, &options, &none, &error) == PUMICE_UNSUPPORTED);
  options.vision = 0;

  const ModelHandle model = load_stages({first.get(), device.get()}, {0, 0});
  pumice_tune* tune = nullptr;
  CHECK(pumice_tune_start(model.get(), nullptr, &tune, &error) == PUMICE_UNSUPPORTED);
  CHECK(tune == nullptr);
  // A load on a thread, whose devices and list may go at once; its progress never falls.
  pumice_load* load = nullptr;
  {
    std::vector<pumice_stage> list = stages;
    options.stages = list.data();
    require_ok(pumice_load_start(device.get(), &source, &options, &load, &error), error);
    list.assign(2, {});
  }
  const LoadHandle loading(load);
  uint64_t done = 0, total = 0, before = 0;
  while (!pumice_load_poll(load, &done, &total)) {
    CHECK(done >= before);
    CHECK(done <= total);
    before = done;
  }
  pumice_model* made = nullptr;
  require_ok(pumice_load_finish(load, &made, &error), error);
  const ModelHandle second(made);
  const SessionHandle again = make_session(second.get(), small_options());
  CHECK(tell(again.get(), prompt, 4).tokens.size() == 4);
}

TEST_CASE("the memory of a model in stages is estimated to the byte, on all devices together") {
  const auto estimate_of = [](pumice_device* device, const std::vector<pumice_stage>& stages,
                              const pumice_session_options& own) {
    pumice_load_options options = {sizeof options};
    options.stages = stages.data();
    options.stage_count = static_cast<uint32_t>(stages.size());
    pumice_source source = {sizeof source};
    source.path = stories.c_str();
    pumice_memory_estimate estimate = {sizeof estimate};
    pumice_error error;
    require_ok(pumice_session_estimate_memory(device, &source, &options, &own, &estimate, &error), error);
    return estimate;
  };
  const pumice_session_options own = small_options();
  for (const bool twice : {false, true}) { // one device
    CAPTURE(twice);
    const DeviceHandle first = make_device(), device = make_device();
    const std::vector<pumice_device*> devices = {twice ? device.get() : first.get(), device.get()};
    const pumice_memory_estimate estimate = estimate_of(device.get(), stages_on(devices, {2, 3}), own);
    CHECK(estimate.fits);
    CHECK(estimate.longest_context > 128);
    const ModelHandle model = load_stages(devices, {2, 3});
    const auto all = [&] { return allocated(device.get()) + (twice ? 0 : allocated(first.get())); };
    CHECK(all() == estimate.weights);
    const SessionHandle session = make_session(model.get(), own);
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    begin(session.get(), prompt, 4);
    do {
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 1e5f, nullptr, &slice, &error),
                 error);
    } while (slice.active);
    CHECK(all() == estimate.weights + estimate.cache + estimate.scratch);
    CHECK(estimate.peak >= all());
  }
  // A stage that has no room: what fits with the layers the other way round does not fit.
  const DeviceHandle roomy = make_device();
  const uint64_t needed =
      estimate_of(roomy.get(), stages_on({roomy.get(), roomy.get()}, {1, 4}), own).peak * 2 / 3;
  pumice_device_options tight_options = {sizeof tight_options};
  tight_options.memory_limit = needed;
  const DeviceHandle tight = make_device(tight_options);
  CHECK(estimate_of(roomy.get(), stages_on({tight.get(), roomy.get()}, {1, 4}), own).fits);
  const pumice_memory_estimate full =
      estimate_of(roomy.get(), stages_on({tight.get(), roomy.get()}, {4, 1}), own);
  const pumice_memory_estimate one = estimate_of(roomy.get(), stages_on({roomy.get()}, {5}), own);
  MESSAGE("tight: " << full.fits << ", longest " << full.longest_context << " of " << one.longest_context);
  CHECK(full.longest_context < one.longest_context);
}
