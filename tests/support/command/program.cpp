#include "support/command/program.h"

#include <string_view>

#include "support/vulkan/gpu.h"

namespace {

// Samples, so that a token that was left out or came twice changes what follows.
pumice_sampling warm_sampling() {
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 0.8f;
  sampling.repeat_penalty = 1.1f;
  sampling.seed = 7;
  return sampling;
}

pumice_session_options small_session() {
  pumice_session_options options = {sizeof options};
  options.context = 64;
  options.chunk = 4;
  return options;
}

} // namespace

pumice_status FaultyProgram::open_device(pumice_error* error) {
  pumice_device_options options = {sizeof options};
  options.get_instance_proc_addr = FaultyVulkan::get_instance_proc_addr;
  options.validate = validate_;
  options.cache_folder = cache_folder.empty() ? nullptr : cache_folder.c_str();
  options.log = [](void* user, pumice_log_level level, const char* message) {
    if (level != PUMICE_LOG_WARNING || !static_cast<FaultyProgram*>(user)->validate_) return;
    // That kernels could not be kept is no error: a fault is reported here.
    if (!std::string_view(message).starts_with("vkGetPipelineCacheData:")) {
      validation_messages().push_back(message);
    }
  };
  options.log_user = this;
  pumice_vulkan vulkan = {sizeof vulkan};
  if (owner_ == Owner::application) {
    applications_.push_back(
        std::make_unique<ExternalVulkan>(FaultyVulkan::get_instance_proc_addr, validate_));
    vulkan = application().vulkan();
    options.vulkan = &vulkan;
  }
  pumice_device* made = nullptr;
  const pumice_status status = pumice_device_create(&options, &made, error);
  CHECK((made != nullptr) == (status == PUMICE_OK));
  device.reset(made);
  return status;
}

pumice_status FaultyProgram::load(pumice_error* error, const std::string& path) {
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_load_options options = {sizeof options};
  if (cache_folder.empty()) options.tune_seconds = -1; // or each fault is tried in the check of kernels
  pumice_model* made = nullptr;
  const pumice_status status = pumice_model_load(device.get(), &source, &options, &made, error);
  CHECK((made != nullptr) == (status == PUMICE_OK));
  model.reset(made);
  return status;
}

pumice_status FaultyProgram::open_session(pumice_error* error) {
  const pumice_session_options options = small_session();
  pumice_session* made = nullptr;
  const pumice_status status = pumice_session_create(model.get(), &options, &made, error);
  return keep(made, status);
}

pumice_status FaultyProgram::start_session(pumice_error* error) {
  const pumice_session_options options = small_session();
  pumice_session_creation* start = nullptr;
  pumice_session* made = nullptr;
  pumice_status status = pumice_session_creation_start(model.get(), &options, &start, error);
  const StartHandle owner(start);
  if (status == PUMICE_OK) status = pumice_session_creation_finish(start, &made, error);
  return keep(made, status);
}

pumice_status FaultyProgram::keep(pumice_session* made, pumice_status status) {
  CHECK((made != nullptr) == (status == PUMICE_OK));
  session.reset(made);
  return status;
}

void FaultyProgram::open_world() {
  pumice_error error;
  model.reset();
  require_ok(open_device(&error), error);
  require_ok(load(&error), error);
}

void FaultyProgram::open_all() {
  pumice_error error;
  session.reset();
  open_world();
  if (applications_.size() > 1) applications_.pop_front();
  require_ok(open_session(&error), error);
}

void FaultyProgram::begin(const char* prompt, uint32_t max_tokens) {
  const pumice_sampling sampling = warm_sampling();
  pumice_request request = {sizeof request};
  request.text = prompt;
  request.new_conversation = prompt != nullptr;
  request.max_tokens = max_tokens;
  request.sampling = &sampling;
  pumice_error error;
  require_ok(pumice_session_generate(session.get(), &request, &error), error);
  story_ = {};
}

pumice_status FaultyProgram::advance(pumice_error* error) {
  pumice_slice slice = {sizeof slice};
  for (int number = 0;; ++number) {
    const pumice_status status =
        pumice_work_advance(pumice_session_work(session.get()), budget_us, nullptr, &slice, error);
    if (status != PUMICE_OK || !slice.active) return status;
    if (number % 2) wait_for_device(); // two are under way now and then
  }
}

pumice_status FaultyProgram::record(pumice_error* error) {
  pumice_slice slice = {sizeof slice};
  do {
    const pumice_status status = pumice_work_record(pumice_session_work(session.get()), application().begin(),
                                                    budget_us, &slice, error);
    if (status != PUMICE_OK) return status;
    application().run();
  } while (slice.active);
  return PUMICE_OK;
}

void FaultyProgram::go_midway() {
  pumice_error error;
  while (story_.tokens.size() < 2) {
    require_ok(pumice_work_advance(pumice_session_work(session.get()), budget_us, nullptr, nullptr, &error),
               error);
    take_events(session.get(), story_);
  }
  REQUIRE(story_.finish_reason == PUMICE_FINISH_NONE);
}

Story FaultyProgram::story() {
  take_events(session.get(), story_);
  return story_;
}

void FaultyProgram::recover(pumice_status status) {
  if (status != PUMICE_DEVICE_LOST) return;
  pumice_error error;
  open_world();
  require_ok(pumice_session_resume(session.get(), model.get(), &error), error);
  if (applications_.size() > 1) applications_.pop_front();
}

void FaultyProgram::wait_for_device() {
  static const PFN_vkGetInstanceProcAddr loader = *pumice::open_vulkan_loader();
  pumice_vulkan vulkan = {sizeof vulkan};
  pumice_device_vulkan(device.get(), &vulkan, nullptr);
  const auto wait = reinterpret_cast<PFN_vkQueueWaitIdle>(loader(vulkan.instance, "vkQueueWaitIdle"));
  vulkan.lock_queue(vulkan.lock_user);
  CHECK(wait(vulkan.queue) == VK_SUCCESS);
  vulkan.unlock_queue(vulkan.lock_user);
}

uint64_t FaultyProgram::allocated() const {
  return ::allocated(device.get());
}
