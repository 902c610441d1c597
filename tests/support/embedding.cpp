#include "support/embedding.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "support/vulkan/gpu.h"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(PUMICE_THREAD_SANITIZER) || __has_feature(address_sanitizer)
#include <dlfcn.h>

// ThreadSanitizer ends a program that unloads a library which tests/tsan.supp names, and LeakSanitizer cannot
// name one that was unloaded, so that tests/lsan.supp does not find it.
static void keep_driver() {
  for (const char* library : {"libvulkan_lvp.so", "libVkLayer_khronos_validation.so"}) {
    (void)dlopen(library, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
#else
static void keep_driver() {}
#endif

DeviceHandle make_device(pumice_device_options options) {
  options.validate = !options.vulkan && !std::getenv("PUMICE_TEST_NO_VALIDATION");
  if (!options.log) {
    options.log = [](void*, pumice_log_level level, const char* message) {
      static std::mutex mutex;
      std::lock_guard lock(mutex);
      // What an application does without is its own affair.
      const bool lost = std::string_view(message).find("not switched on") != std::string_view::npos;
      if (level == PUMICE_LOG_WARNING && !lost) validation_messages().push_back(message);
    };
  }
  pumice_device* device = nullptr;
  pumice_error error;
  require_ok(pumice_device_create(&options, &device, &error), error);
  keep_driver();
  return DeviceHandle(device);
}

const DeviceHandle& shared_device(size_t index) {
  static auto* const devices =
      new std::map<size_t, DeviceHandle>; // not destroyed: drivers dislike being called after main
  DeviceHandle& device = (*devices)[index];
  if (!device) device = make_device();
  return device;
}

ModelHandle load(pumice_device* device, const std::string& path, float tune_seconds) {
  pumice_load_options options = {sizeof options};
  options.tune_seconds = tune_seconds;
  return load(device, path, options);
}

ModelHandle load(pumice_device* device, const std::string& path, const pumice_load_options& options) {
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_model* model = nullptr;
  pumice_error error;
  require_ok(pumice_model_load(device, &source, &options, &model, &error), error);
  return ModelHandle(model);
}

SessionHandle make_session(pumice_model* model, pumice_session_options options) {
  pumice_session* session = nullptr;
  pumice_error error;
  require_ok(pumice_session_create(model, &options, &session, &error), error);
  return SessionHandle(session);
}

BatchHandle make_batch(pumice_model* model, pumice_batch_options options) {
  options.struct_size = sizeof options;
  pumice_batch* batch = nullptr;
  pumice_error error;
  require_ok(pumice_batch_create(model, &options, &batch, &error), error);
  return BatchHandle(batch);
}

void add_event(const pumice_event& event, Story& story) {
  story.text += event.text;
  if (event.type == PUMICE_EVENT_TOKEN) story.tokens.push_back(event.token);
  if (event.type == PUMICE_EVENT_END) story.finish_reason = event.finish_reason;
}

void take_events(pumice_session* session, Story& story) {
  while (const pumice_event* event = pumice_session_poll(session)) add_event(*event, story);
}

Story generated_story(pumice_session* session, const pumice_request& request, bool in_slices) {
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
  pumice_slice slice = {sizeof slice};
  slice.active = in_slices;
  while (slice.active)
    require_ok(pumice_work_advance(pumice_session_work(session), 300, nullptr, &slice, &error), error);
  require_ok(pumice_session_run(session, &error), error);
  Story story;
  take_events(session, story);
  return story;
}

void begin(pumice_session* session, const char* prompt, uint32_t max_tokens,
           const pumice_sampling* sampling) {
  pumice_request request = {sizeof request};
  request.text = prompt;
  request.new_conversation = true;
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
}

Story tell(pumice_session* session, const char* prompt, uint32_t max_tokens,
           const pumice_sampling* sampling) {
  begin(session, prompt, max_tokens, sampling);
  pumice_error error;
  require_ok(pumice_session_run(session, &error), error);
  Story story;
  take_events(session, story);
  return story;
}

std::vector<uint32_t> tokens_of(const pumice_session* session) {
  size_t count = 0;
  pumice_error error;
  require_ok(pumice_session_tokens(session, nullptr, 0, &count, &error), error);
  std::vector<uint32_t> tokens(count);
  require_ok(pumice_session_tokens(session, tokens.data(), count, &count, &error), error);
  return tokens;
}

uint64_t allocated(const pumice_device* device) {
  pumice_memory_report report = {sizeof report};
  REQUIRE(pumice_device_memory(device, &report, nullptr) == PUMICE_OK);
  return report.allocated;
}
