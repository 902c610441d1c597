#include "npc.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "failure.h"

namespace npc {

namespace {

const char* const prompts[] = {
    "Once upon a time",     "One day, a little fox",  "In a big forest there lived",
    "It was a cold night.", "There was a small boat",
};

// How a story ends: with one of the actions, each as the text that stands for it.
const char* const ending = " In the end, the bear wanted to";
struct NamedAction {
  Action action;
  const char* text;
};
constexpr NamedAction actions[] = {
    {Action::dance, " dance."}, {Action::wave, " wave."}, {Action::sleep, " sleep."}};
constexpr uint32_t action_time = 120; // frames

void say(void*, pumice_log_level, const char* message) {
  std::fprintf(stderr, "npc_demo: %s\n", message);
}

void say_warning(void*, pumice_log_level level, const char* message) {
  if (level == PUMICE_LOG_WARNING) say(nullptr, level, message);
}

} // namespace

Npc::Npc(const Device& device, const Options& options) : options_(options) {
  open_device(device);
  if (device_) start_loading();
}

// ---- Creating the device, the model and the session ----

// Gives the demo's own Vulkan device and its only queue to Pumice.
void Npc::open_device(const Device& device) {
  pumice_vulkan vulkan{};
  vulkan.struct_size = sizeof vulkan;
  vulkan.get_instance_proc_addr = device.functions().vkGetInstanceProcAddr;
  vulkan.instance = device.instance().handle();
  vulkan.physical_device = device.physical();
  vulkan.device = device.handle();
  vulkan.queue_family = device.queue_family();
  vulkan.queue = device.queue();
  // Pumice cannot ask a VkDevice which features are enabled, so it has to be told.
  vulkan.features = device.features();
  vulkan.extensions = device.extensions().data();
  vulkan.extension_count = static_cast<uint32_t>(device.extensions().size());
  // While a model is loaded, a thread of Pumice submits to the queue.
  vulkan.lock_user = &device.queue_lock();
  vulkan.lock_queue = [](void* lock) { static_cast<std::mutex*>(lock)->lock(); };
  vulkan.unlock_queue = [](void* lock) { static_cast<std::mutex*>(lock)->unlock(); };

  pumice_device_options device_options{};
  device_options.struct_size = sizeof device_options;
  device_options.vulkan = &vulkan;
  device_options.cache_folder = options_.cache.empty() ? nullptr : options_.cache.c_str();
  device_options.log = options_.verbose ? say : say_warning;
  pumice_device* made = nullptr;
  pumice_error error;
  if (!failed(pumice_device_create(&device_options, &made, &error), "Pumice cannot use this device", error))
    device_.reset(made);
}

void Npc::start_loading() {
  pumice_source source{};
  source.struct_size = sizeof source;
  source.path = options_.model.c_str();
  pumice_load* load = nullptr;
  pumice_error error;
  progress_ = 0;
  if (!failed(pumice_load_start(device_.get(), &source, nullptr, &load, &error), "the model", error))
    load_.reset(load);
}

void Npc::finish_loading() {
  pumice_model* model = nullptr;
  pumice_error error;
  const pumice_status status = pumice_load_finish(load_.get(), &model, &error);
  load_.reset();
  if (failed(status, "the model", error)) return;
  model_.reset(model);
  begin_again();
}

void Npc::begin_again() {
  if (!model_) return;
  session_.reset();
  said_.clear();
  complaint_.clear();
  // Creating a session compiles kernels and runs some steps. That is too long for a frame.
  const pumice_session_options options = session_options(true);
  pumice_session_creation* start = nullptr;
  pumice_error error;
  if (!failed(pumice_session_creation_start(model_.get(), &options, &start, &error), "a session", error))
    start_.reset(start);
}

pumice_session_options Npc::session_options(bool warm_up) const {
  pumice_session_options options{};
  options.struct_size = sizeof options;
  options.chunk = 16;        // the prompts are short, and short launches fit small budgets
  options.warm_up = warm_up; // so that the first frames are as smooth as the others
  return options;
}

void Npc::finish_session() {
  pumice_session* session = nullptr;
  pumice_error error;
  const pumice_status status = pumice_session_creation_finish(start_.get(), &session, &error);
  start_.reset();
  if (failed(status, "a session", error)) return;
  session_.reset(session);
  // The first form of a model takes more time than a frame has. A story then takes the place of this text.
  if (failed(request(session, choice(0), 0, &error), "a choice", error)) return;
  wants_to_begin_ = true;
  pause_ = 0;
}

void Npc::wait_until_loaded() {
  while (loading()) {
    update();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// ---- In each frame ----

void Npc::update() {
  if (load_) {
    uint64_t done = 0, total = 0;
    const bool ended = pumice_load_poll(load_.get(), &done, &total);
    progress_ = total > 0 ? static_cast<float>(done) / static_cast<float>(total) : 0;
    if (ended) finish_loading();
  }
  if (start_ && pumice_session_creation_poll(start_.get(), nullptr, nullptr)) finish_session();
  if (!session_ || !complaint_.empty()) return;
  if (action_frames_ > 0) --action_frames_;
  if (pause_ > 0)
    --pause_;
  else if (wants_to_begin_)
    begin_text();
}

void Npc::begin_text() {
  if (!said_.empty()) take_events(); // the last events of a text that did not end
  const bool story_told = !said_.empty() && said_.back().complete && !said_.back().chooses;
  Speech speech = story_told ? choice(options_.seed + said_.size()) : story();
  pumice_error error;
  pumice_status status = request(session_.get(), speech, options_.tokens, &error);
  if (status == PUMICE_CONTEXT_FULL && story_told) { // by the story
    speech = story();
    status = request(session_.get(), speech, options_.tokens, &error);
  }
  if (status == PUMICE_NOT_READY) return; // slices of the last text still run: tried again later
  if (failed(status, "the prompt", error)) return;
  said_.push_back(std::move(speech));
  wants_to_begin_ = false;
}

Speech Npc::story() const {
  const auto told = std::ranges::count(said_, false, &Speech::chooses);
  Speech speech;
  speech.prompt = prompts[static_cast<size_t>(told) % std::size(prompts)];
  speech.seed = options_.seed + said_.size();
  return speech;
}

Speech Npc::choice(uint64_t seed) {
  Speech speech;
  speech.prompt = ending;
  speech.chooses = true;
  speech.seed = seed;
  return speech;
}

pumice_status Npc::request(pumice_session* session, const Speech& speech, uint32_t max_tokens,
                           pumice_error* error) const {
  pumice_sampling sampling{};
  sampling.struct_size = sizeof sampling;
  sampling.temperature = 0.8f;
  sampling.top_k = 40;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.05f;
  sampling.seed = speech.seed;
  pumice_request wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.text = speech.prompt.c_str();
  wanted.new_conversation = !speech.chooses;
  wanted.max_tokens = speech.chooses ? 0 : max_tokens;
  wanted.sampling = &sampling;
  const char* texts[std::size(actions)];
  std::ranges::transform(actions, texts, &NamedAction::text);
  pumice_form form{};
  form.struct_size = sizeof form;
  form.choices = texts;
  form.choice_count = std::size(texts);
  if (speech.chooses) wanted.form = &form;
  return pumice_session_generate(session, &wanted, error);
}

Slice Npc::record(VkCommandBuffer commands, float budget_us) {
  return run_slice([&](pumice_slice* slice, pumice_error* error) {
    return pumice_work_record(pumice_session_work(session_.get()), commands, budget_us, slice, error);
  });
}

Slice Npc::advance(float budget_us) {
  return run_slice([&](pumice_slice* slice, pumice_error* error) {
    return pumice_work_advance(pumice_session_work(session_.get()), budget_us, nullptr, slice, error);
  });
}

template <class Call>
Slice Npc::run_slice(const Call& call) {
  Slice slice;
  if (!speaks()) return slice;
  pumice_slice report{};
  report.struct_size = sizeof report;
  pumice_error error;
  const auto before = std::chrono::steady_clock::now();
  const pumice_status status = call(&report, &error);
  slice.cpu_us = std::chrono::duration<float, std::micro>(std::chrono::steady_clock::now() - before).count();
  if (failed(status, "generating", error)) return slice;
  slice.expected_us = report.expected_us;
  slice.largest_us = report.largest_us;
  slice.dispatches = report.dispatches;
  slice.tokens = take_events();
  return slice;
}

uint32_t Npc::take_events() {
  uint32_t tokens = 0;
  while (const pumice_event* event = pumice_session_poll(session_.get())) {
    Speech& speech = said_.back();
    speech.text += event->text; // valid until the next call with the session
    if (event->type == PUMICE_EVENT_TOKEN) {
      speech.tokens.push_back(event->token);
      ++tokens;
    } else { // the text has ended, for whatever reason; the next one follows
      speech.complete = true;
      wants_to_begin_ = true;
      pause_ = options_.pause;
      const auto* chosen = std::ranges::find(actions, std::string_view(speech.text), &NamedAction::text);
      if (speech.chooses && chosen != std::end(actions)) {
        action_ = chosen->action;
        action_frames_ = action_time;
      }
    }
  }
  return tokens;
}

void Npc::restart() {
  complaint_.clear();
  if (!device_ || loading()) return;
  if (!model_) {
    start_loading();
  } else if (!session_) {
    begin_again();
  } else {
    wants_to_begin_ = true;
    pause_ = 0;
  }
}

// ---- Checks ----

bool Npc::same_without_slices() {
  const pumice_session_options options = session_options(false);
  pumice_session* made = nullptr;
  pumice_error error;
  if (failed(pumice_session_create(model_.get(), &options, &made, &error), "a session", error)) return false;
  const Session session(made);
  for (const Speech& speech : said_) {
    const auto count = static_cast<uint32_t>(speech.tokens.size());
    if (!speech.complete && (count == 0 || speech.chooses)) continue;
    // If a story is not complete, the tokens so far are compared.
    if (failed(request(session.get(), speech, speech.complete ? options_.tokens : count, &error),
               "the prompt", error))
      return false;
    if (failed(pumice_session_run(session.get(), &error), "generating without slices", error)) return false;
    Speech whole;
    while (const pumice_event* event = pumice_session_poll(session.get())) {
      whole.text += event->text;
      if (event->type == PUMICE_EVENT_TOKEN) whole.tokens.push_back(event->token);
    }
    if (whole.tokens != speech.tokens || (speech.complete && whole.text != speech.text)) return false;
  }
  return true;
}

// Returns whether a call failed. If so, the character says why instead of telling its story, and the scene
// continues. Only the loss of the device ends the demo.
bool Npc::failed(pumice_status status, const std::string& what, const pumice_error& error) {
  if (status == PUMICE_OK) return false;
  if (status == PUMICE_DEVICE_LOST) throw DeviceLost();
  complaint_ = fmt::format("{}: {}", what, error.message);
  std::fprintf(stderr, "npc_demo: %s\n", complaint_.c_str());
  return true;
}

} // namespace npc
