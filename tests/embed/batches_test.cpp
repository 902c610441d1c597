// Several texts in the same steps.
#include <array>
#include <cstdlib>
#include <map>
#include <random>

#include "support/embedding.h"
#include "support/vulkan/external_vulkan.h"
#include "support/vulkan/gpu.h"

namespace {

// What was said, to the bit.
struct Said {
  Story story;
  std::vector<float> log_probabilities;

  bool operator==(const Said&) const = default;
  void add(const pumice_event& event) {
    add_event(event, story);
    if (event.type == PUMICE_EVENT_TOKEN) log_probabilities.push_back(event.log_probability);
  }
};

// Characters: what each is asked, and what it says alone.
class Cast {
public:
  static constexpr size_t size = 5;
  static constexpr size_t stopped = 2; // ends with a stop string

  explicit Cast(pumice_model* model) {
    pumice_session_options options = {sizeof options};
    options.context = context;
    options.chunk = 16;
    const SessionHandle session = make_session(model, options);
    for (size_t i = 0; i < size; ++i) alone_[i] = say(session.get(), request(i));
    const std::string& text = alone_[stopped].story.text;
    stop_ = text.substr(text.size() / 2, 5);
    alone_[stopped] = say(session.get(), request(stopped));
    REQUIRE(alone_[stopped].story.finish_reason == PUMICE_FINISH_STOP);
  }
  const Said& alone(size_t i) const { return alone_[i]; }

  // Valid until the next call.
  const pumice_request& request(size_t i) {
    static constexpr const char* prompts[size] = {
        "Once upon a time there was a little girl named Lily. She loved to", "One day, a little fox",
        "There was a small boat", "It was cold",
        // Several chunks.
        ("Once upon a time there was a big dog. The dog liked to run and to play with a red ball in the "
         "park. "
         "One day the dog could not find the ball. The dog looked")};
    static constexpr uint32_t lengths[size] = {20, 7, 30, 12, 16};
    sampling_ = {sizeof sampling_};
    sampling_.log_probabilities = 1;
    if (i % 2) sampling_.temperature = 0.8f, sampling_.seed = 3;
    stops_ = stop_.c_str();
    request_ = {sizeof request_};
    request_.text = prompts[i];
    request_.new_conversation = true;
    request_.max_tokens = lengths[i];
    request_.sampling = &sampling_;
    request_.stops = &stops_;
    request_.stop_count = i == stopped && !stop_.empty();
    return request_;
  }

  static constexpr uint32_t context = 128;

private:
  static Said say(pumice_session* session, const pumice_request& request) {
    pumice_error error;
    require_ok(pumice_session_generate(session, &request, &error), error);
    require_ok(pumice_session_run(session, &error), error);
    Said said;
    while (const pumice_event* event = pumice_session_poll(session)) said.add(*event);
    return said;
  }

  std::array<Said, size> alone_;
  std::string stop_;
  const char* stops_ = nullptr;
  pumice_sampling sampling_ = {};
  pumice_request request_ = {};
};

pumice_batch_options options_of(uint32_t texts) {
  pumice_batch_options options = {sizeof options};
  options.texts = texts;
  options.context = Cast::context;
  options.chunk = 16;
  return options;
}

// A batch of the cast.
class Stage {
public:
  Stage(pumice_model* model, uint32_t texts) : Stage(model, options_of(texts)) {}
  Stage(pumice_model* model, const pumice_batch_options& options)
      : cast(model), batch(make_batch(model, options)) {}

  uint32_t add(size_t i) {
    uint32_t text = 0;
    require_ok(pumice_batch_add(batch.get(), &cast.request(i), &text, &error), error);
    who_[text] = i;
    said[i] = {};
    return text;
  }
  void add_all() {
    for (size_t i = 0; i < Cast::size; ++i) add(i);
  }
  void take() {
    while (const pumice_event* event = pumice_batch_poll(batch.get())) {
      REQUIRE(who_.count(event->text_id) == 1);
      said[who_[event->text_id]].add(*event);
    }
  }
  bool step() {
    bool active = false;
    require_ok(pumice_batch_step(batch.get(), &active, &error), error);
    take();
    return active;
  }
  bool advance(float budget) {
    require_ok(pumice_work_advance(pumice_batch_work(batch.get()), budget, nullptr, &slice, &error), error);
    take();
    return slice.active;
  }
  bool record(VkCommandBuffer commands, float budget) {
    require_ok(pumice_work_record(pumice_batch_work(batch.get()), commands, budget, &slice, &error), error);
    take();
    return slice.active;
  }
  void check_all() const {
    for (size_t i = 0; i < Cast::size; ++i) {
      CAPTURE(i);
      CHECK(said[i] == cast.alone(i));
    }
  }
  bool quiet() { return pumice_batch_poll(batch.get()) == nullptr; }

  Cast cast;
  BatchHandle batch;
  std::array<Said, Cast::size> said;
  pumice_slice slice = {sizeof slice};
  pumice_error error;

private:
  std::map<uint32_t, size_t> who_;
};

struct Player {
  const DeviceHandle& device = shared_device();
  ModelHandle model = load(device.get());
};

} // namespace

TEST_CASE("several texts in the same steps are those of each alone") {
  const Player player;
  Stage stage(player.model.get(), 3); // others wait
  stage.add_all();
  while (stage.step()) {
  }
  stage.check_all();
  CHECK_FALSE(stage.step());
  CHECK(stage.quiet());
}

TEST_CASE("a step gives at most a token of each text, and at most a chunk of the others' prompts") {
  const Player player;
  Stage stage(player.model.get(), 2);
  stage.add(4); // a prompt of three chunks
  size_t silent = 0;
  for (; stage.said[4].story.tokens.empty(); ++silent) REQUIRE(stage.step());
  CHECK(silent >= 3);
  stage.add(0);
  for (size_t before = stage.said[4].story.tokens.size(); stage.step(); ++before) {
    if (stage.said[4].story.finish_reason != PUMICE_FINISH_NONE) break;
    CHECK(stage.said[4].story.tokens.size() == before + 1);
  }
  while (stage.step()) {
  }
  CHECK(stage.said[4] == stage.cast.alone(4));
  CHECK(stage.said[0] == stage.cast.alone(0));
}

TEST_CASE("several texts in slices of any size are those of each alone") {
  const Player player;
  Stage stage(player.model.get(), 3);
  std::mt19937 random(1);
  std::exponential_distribution<float> any(1 / 400.0f);
  for (const float budget : {0.0f, 1.0f, 300.0f, 3000.0f, 1e6f}) {
    CAPTURE(budget);
    stage.add_all();
    uint64_t slices = 0;
    while (stage.advance(budget > 0 ? budget : 1 + any(random))) slices += stage.slice.dispatches > 0;
    stage.check_all();
    MESSAGE(slices << " slices of " << budget << " us");
    CHECK(slices > 3);
  }
  CHECK(stage.slice.finished > 0);
  CHECK(stage.quiet());
  // Slices, and the rest in steps.
  stage.add_all();
  for (int i = 0; i < 40; ++i) stage.advance(300);
  while (stage.step()) {
  }
  stage.check_all();
}

TEST_CASE("a batch that is warmed up has measured slices before its first one") {
  const Player player;
  pumice_batch_options options = options_of(3);
  for (const bool warm_up : {false, true}) {
    options.warm_up = warm_up;
    Stage stage(player.model.get(), options);
    stage.add_all();
    stage.advance(1000);
    CHECK((stage.slice.finished > 0) == warm_up);
    while (stage.advance(1000)) {
    }
    stage.check_all();
  }
}

TEST_CASE("texts are added, dropped and cancelled between slices") {
  const Player player;
  Stage stage(player.model.get(), 3);
  const auto until = [&](size_t i, size_t tokens) {
    while (stage.said[i].story.tokens.size() < tokens) REQUIRE(stage.advance(200));
  };
  stage.add(0);
  const uint32_t dropped = stage.add(4);
  until(0, 3); // in the middle of the other's prompt
  require_ok(pumice_batch_drop(stage.batch.get(), dropped, &stage.error), stage.error);
  require_ok(pumice_batch_drop(stage.batch.get(), dropped, &stage.error), stage.error);
  const Said last = stage.said[4];
  stage.add(1);
  until(0, 8);
  stage.add(3);
  while (stage.advance(200)) {
  }
  for (const size_t i : {0, 1, 3}) CHECK(stage.said[i] == stage.cast.alone(i));
  CHECK(stage.said[4] == last);

  // The only text, in the middle of a step: the next one starts as if it had not been.
  for (int slices = 1; slices < 8; ++slices) {
    const uint32_t only = stage.add(4);
    for (int i = 0; i < slices; ++i) stage.advance(100);
    require_ok(pumice_batch_drop(stage.batch.get(), only, &stage.error), stage.error);
    CHECK_FALSE(stage.advance(100));
    stage.add(0);
    stage.add(1);
    while (stage.advance(500)) {
    }
    CHECK(stage.said[0] == stage.cast.alone(0));
    CHECK(stage.said[1] == stage.cast.alone(1));
  }

  for (const bool in_slices : {true, false}) {
    stage.add(0);
    stage.add(2);
    until(0, 4);
    pumice_work_cancel(pumice_batch_work(stage.batch.get()));
    bool active = true;
    if (in_slices) {
      CHECK(pumice_work_advance(pumice_batch_work(stage.batch.get()), 100, nullptr, &stage.slice,
                                &stage.error) == PUMICE_CANCELLED);
    } else {
      CHECK(pumice_batch_step(stage.batch.get(), &active, &stage.error) == PUMICE_CANCELLED);
      CHECK_FALSE(active);
    }
    stage.take();
    CHECK_FALSE(stage.advance(100));
    for (const size_t i : {0, 2}) CHECK(stage.said[i].story.finish_reason == PUMICE_FINISH_CANCELLED);
  }
  pumice_work_cancel(pumice_batch_work(stage.batch.get())); // nothing to cancel
  stage.add_all();
  while (stage.advance(1000)) {
  }
  stage.check_all();
}

TEST_CASE("slices of a batch are recorded into a program's command buffers, submitted or discarded") {
  const auto loader = *pumice::open_vulkan_loader();
  ExternalVulkan application(loader, !std::getenv("PUMICE_TEST_NO_VALIDATION"));
  const pumice_vulkan vulkan = application.vulkan();
  pumice_device_options options = {sizeof options};
  options.vulkan = &vulkan;
  const DeviceHandle device = make_device(options);
  const ModelHandle model = load(device.get());
  Stage stage(model.get(), 3);
  std::mt19937 random(2);
  size_t discarded = 0;
  stage.add_all();
  for (bool active = true; active;) {
    // Also slices of Pumice's own.
    if (random() % 4 == 0) stage.advance(200);
    active = stage.record(application.begin(), random() % 8 == 0 ? 1e5f : 500.0f);
    if (stage.slice.dispatches > 0 && random() % 8 == 0) {
      CHECK(pumice_batch_step(stage.batch.get(), nullptr, &stage.error) == PUMICE_NOT_READY);
      require_ok(pumice_work_discard(pumice_batch_work(stage.batch.get()), &stage.error), stage.error);
      ++discarded;
    } else {
      application.run();
    }
  }
  stage.check_all();
  MESSAGE(discarded << " slices discarded");
  CHECK(discarded > 3);
  CHECK(pumice_work_record(pumice_batch_work(stage.batch.get()), nullptr, 100, nullptr, &stage.error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_work_advance(pumice_batch_work(stage.batch.get()), 0, nullptr, nullptr, &stage.error) ==
        PUMICE_INVALID_ARGUMENT);

  // What was recorded for a text that is dropped may run or not.
  for (const bool runs : {true, false}) {
    stage.add(0);
    const uint32_t dropped = stage.add(1);
    stage.record(application.begin(), 300);
    require_ok(pumice_batch_drop(stage.batch.get(), dropped, &stage.error), stage.error);
    if (runs) {
      application.run();
    } else {
      require_ok(pumice_work_discard(pumice_batch_work(stage.batch.get()), &stage.error), stage.error);
    }
    while (stage.advance(500)) {
    }
    CHECK(stage.said[0] == stage.cast.alone(0));
  }
}

TEST_CASE("the memory estimate of a model and a batch is what they take") {
  const DeviceHandle device = make_device();
  pumice_error error;
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  uint64_t smaller = 0;
  for (const uint32_t texts : {1u, 3u, 16u}) {
    CAPTURE(texts);
    pumice_batch_options options = options_of(texts);
    options.cache = texts == 3 ? PUMICE_CACHE_Q8_0 : PUMICE_CACHE_F16;
    pumice_memory_estimate estimate = {sizeof estimate};
    require_ok(pumice_batch_estimate_memory(device.get(), &source, nullptr, &options, &estimate, &error),
               error);
    const DeviceHandle fresh = make_device();
    pumice_memory_report report = {sizeof report};
    require_ok(pumice_device_memory(fresh.get(), &report, &error), error);
    const uint64_t before = report.allocated;
    const ModelHandle model = load(fresh.get());
    const BatchHandle batch = make_batch(model.get(), options);
    pumice_request request = {sizeof request};
    request.text = "Once upon a time there was";
    request.max_tokens = 3;
    uint32_t text = 0;
    require_ok(pumice_batch_add(batch.get(), &request, &text, &error), error);
    pumice_slice slice = {sizeof slice, true}; // small ones, so that as many are under way as can be
    while (slice.active) {
      require_ok(pumice_work_advance(pumice_batch_work(batch.get()), 1, nullptr, &slice, &error), error);
    }
    require_ok(pumice_device_memory(fresh.get(), &report, &error), error);
    CHECK(estimate.peak == report.peak - before);
    CHECK(estimate.weights + estimate.cache + estimate.scratch == report.allocated - before);
    CHECK(estimate.fits);
    CHECK(estimate.longest_context >= Cast::context);
    CHECK(estimate.cache + estimate.scratch > smaller);
    smaller = estimate.cache + estimate.scratch;
  }
  pumice_batch_options options = options_of(17); // more texts than the tokens of a step
  pumice_memory_estimate estimate = {sizeof estimate};
  CHECK(pumice_batch_estimate_memory(device.get(), &source, nullptr, &options, &estimate, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.texts is 17") != std::string::npos);
  const ModelHandle model = load(device.get());
  pumice_batch* made = nullptr;
  CHECK(pumice_batch_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.texts is 17") != std::string::npos);
}
