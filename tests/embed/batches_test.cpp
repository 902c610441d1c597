// Several texts in the same steps.
#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
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

pumice_session_options session_like(const pumice_batch_options& options) {
  pumice_session_options session = {sizeof session};
  session.context = options.context;
  session.chunk = options.chunk;
  session.cache = options.cache;
  return session;
}

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
      : Stage(model, make_batch(model, options)) {}
  Stage(pumice_model* model, BatchHandle made) : cast(model), batch(std::move(made)) {}

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
  std::vector<uint32_t> tokens_of(uint32_t text) {
    std::vector<uint32_t> tokens(Cast::context);
    size_t count = 0;
    require_ok(pumice_batch_tokens(batch.get(), text, tokens.data(), tokens.size(), &count, &error), error);
    tokens.resize(count);
    return tokens;
  }
  // What one of the cast has still to say after these tokens: of its prompt and what it has said.
  pumice_request rest_of(size_t i, const std::vector<uint32_t>& tokens) {
    pumice_request request = cast.request(i);
    request.text = nullptr;
    request.new_conversation = false;
    request.max_tokens -= static_cast<uint32_t>(said_in(i, tokens));
    return request;
  }
  // How many of these tokens it has said.
  size_t said_in(size_t i, const std::vector<uint32_t>& tokens) const {
    const std::vector<uint32_t>& all = cast.alone(i).story.tokens;
    for (size_t count = std::min(all.size(), tokens.size()); count > 0; --count) {
      if (std::equal(tokens.end() - static_cast<ptrdiff_t>(count), tokens.end(), all.begin())) return count;
    }
    return 0;
  }
  Said rest_in(pumice_session* session, size_t i, const std::vector<uint32_t>& tokens) {
    return rest_of_fork(session, rest_of(i, tokens));
  }
  Said rest_of_fork(pumice_session* session, const pumice_request& request) {
    require_ok(pumice_session_generate(session, &request, &error), error);
    require_ok(pumice_session_run(session, &error), error);
    Said rest;
    while (const pumice_event* event = pumice_session_poll(session)) rest.add(*event);
    return rest;
  }
  SessionHandle fork_of(pumice_session* session) {
    pumice_session* made = nullptr;
    require_ok(pumice_session_fork(session, nullptr, &made, &error), error);
    return SessionHandle(made);
  }
  // A text that is not one of the cast's, to its end; the others go on.
  Said run_alone(uint32_t text, bool in_slices, pumice_batch* in = nullptr) {
    if (!in) in = batch.get();
    Said rest;
    pumice_slice state = {sizeof state};
    for (bool active = true; active;) {
      if (in_slices) {
        require_ok(pumice_work_advance(pumice_batch_work(in), 200, nullptr, &state, &error), error);
        active = state.active;
      } else {
        require_ok(pumice_batch_step(in, &active, &error), error);
      }
      while (const pumice_event* event = pumice_batch_poll(in)) {
        if (event->text_id != text) {
          said[who_[event->text_id]].add(*event);
          continue;
        }
        rest.add(*event);
        reused = event->reused;
      }
    }
    return rest;
  }
  void check_rest(size_t i, const std::vector<uint32_t>& tokens, const Said& rest,
                  std::optional<size_t> known = {}) const {
    CAPTURE(i);
    const Said& all = cast.alone(i);
    const auto told = static_cast<ptrdiff_t>(said_in(i, tokens));
    CHECK(told > 0);
    CHECK(rest.story.tokens == std::vector(all.story.tokens.begin() + told, all.story.tokens.end()));
    CHECK(rest.log_probabilities ==
          std::vector(all.log_probabilities.begin() + told, all.log_probabilities.end()));
    if (known) CHECK(reused == *known);
  }
  pumice_request one_more() {
    pumice_request request = {sizeof request};
    request.max_tokens = 1;
    return request;
  }
  bool quiet() { return pumice_batch_poll(batch.get()) == nullptr; }

  Cast cast;
  BatchHandle batch;
  std::array<Said, Cast::size> said;
  uint32_t reused = 0; // of the text that run_alone() ran
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
    options.cache = texts == 3 ? PUMICE_CACHE_Q8_0_F16 : PUMICE_CACHE_F16;
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

TEST_CASE("a batch is made in the background") {
  const DeviceHandle device = make_device(); // whose kernels are still to be compiled
  const ModelHandle model = load(device.get());
  pumice_batch_options options = options_of(3);
  pumice_error error;
  pumice_batch_creation* made = nullptr;
  require_ok(pumice_batch_creation_start(model.get(), &options, &made, &error), error);
  BatchStartHandle start(made);
  uint64_t done = 0, total = 0;
  while (!pumice_batch_creation_poll(made, &done, &total)) std::this_thread::yield();
  pumice_batch_creation_poll(made, &done, &total);
  CHECK(done == total);
  CHECK(total > 2);
  pumice_batch* batch = nullptr;
  require_ok(pumice_batch_creation_finish(made, &batch, &error), error);
  Stage stage(model.get(), BatchHandle(batch));
  stage.add_all();
  while (stage.step()) {
  }
  stage.check_all();
  CHECK(pumice_batch_creation_finish(made, &batch, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(batch == nullptr);

  options.progress = [](void*, uint64_t, uint64_t) { return false; };
  require_ok(pumice_batch_creation_start(model.get(), &options, &made, &error), error);
  start.reset(made);
  CHECK(pumice_batch_creation_finish(made, &batch, &error) == PUMICE_CANCELLED);
  CHECK(batch == nullptr);
  options.progress = nullptr;
  require_ok(pumice_batch_creation_start(model.get(), &options, &made, &error), error);
  start.reset(made); // is destroyed while it runs
  options.texts = 17;
  require_ok(pumice_batch_creation_start(model.get(), &options, &made, &error), error);
  start.reset(made);
  CHECK(pumice_batch_creation_finish(made, &batch, &error) == PUMICE_INVALID_ARGUMENT);
}

TEST_CASE("texts of a batch are saved while they run, and go on in batches and sessions") {
  const Player player;
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "text").string();
  for (const bool in_slices : {false, true}) {
    CAPTURE(in_slices);
    Stage stage(player.model.get(), 3);
    const auto go_on = [&] { return in_slices ? stage.advance(200) : stage.step(); };
    const uint32_t texts[] = {stage.add(0), stage.add(4), stage.add(1)};
    while (stage.said[0].story.tokens.size() < 4 || stage.said[4].story.tokens.size() < 2) REQUIRE(go_on());
    require_ok(pumice_batch_save(stage.batch.get(), texts[0], file.c_str(), &stage.error), stage.error);
    std::vector<char> bytes;
    const pumice_write_function append = [](void* user, const void* more, size_t count) {
      auto& all = *static_cast<std::vector<char>*>(user);
      all.insert(all.end(), static_cast<const char*>(more), static_cast<const char*>(more) + count);
      return true;
    };
    require_ok(pumice_batch_write(stage.batch.get(), texts[1], append, &bytes, &stage.error), stage.error);
    const std::vector<uint32_t> saved[] = {stage.tokens_of(texts[0]), stage.tokens_of(texts[1])};
    while (go_on()) {
    }
    for (const size_t i : {0, 1, 4}) CHECK(stage.said[i] == stage.cast.alone(i));

    // What each says from where it was saved.
    const SessionHandle session = make_session(player.model.get(), session_like(options_of(1)));
    require_ok(pumice_session_restore(session.get(), file.c_str(), &stage.error), stage.error);
    CHECK(tokens_of(session.get()) == saved[0]);
    stage.check_rest(0, saved[0], stage.rest_in(session.get(), 0, saved[0]));
    uint32_t text = 0;
    const BatchHandle fresh = make_batch(player.model.get(), options_of(2));
    const pumice_request rest = stage.rest_of(4, saved[1]);
    require_ok(pumice_batch_read(fresh.get(), bytes.data(), bytes.size(), &rest, &text, &stage.error),
               stage.error);
    stage.check_rest(4, saved[1], stage.run_alone(text, in_slices, fresh.get()), saved[1].size() - 1);
    // A session's, where all places are busy.
    require_ok(pumice_session_save(session.get(), file.c_str(), &stage.error), stage.error);
    for (const size_t i : {0, 4, 1}) stage.add(i);
    go_on();
    const pumice_request more = stage.one_more();
    require_ok(pumice_batch_restore(stage.batch.get(), file.c_str(), &more, &text, &stage.error),
               stage.error);
    const std::vector<uint32_t> restored = tokens_of(session.get());
    CHECK(stage.tokens_of(text) == restored);
    CHECK(stage.run_alone(text, in_slices).story.tokens.size() == 1);
    for (const size_t i : {0, 1, 4}) CHECK(stage.said[i] == stage.cast.alone(i));
  }
}

TEST_CASE("a text of a batch begins with a session's conversation, whose keys and values it gets") {
  const Player player;
  for (const bool in_slices : {false, true}) {
    CAPTURE(in_slices);
    Stage stage(player.model.get(), 2);
    const SessionHandle session = make_session(player.model.get(), session_like(options_of(1)));
    const Story whole = tell(session.get(), "Once upon a time there was a big dog. The dog liked to run", 20);
    begin(session.get(), "Once upon a time there was a big dog. The dog liked to run", 20);
    Story told;
    pumice_slice slice = {sizeof slice};
    do { // slices are under way
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 300, nullptr, &slice, &stage.error),
                 stage.error);
      take_events(session.get(), told);
    } while (told.tokens.size() < 7);
    stage.add(0);
    for (int i = 0; i < 4; ++i) in_slices ? stage.advance(200) : stage.step();
    uint32_t text = 0;
    pumice_request request = {sizeof request};
    request.max_tokens = 9;
    require_ok(pumice_batch_fork(stage.batch.get(), session.get(), &request, &text, &stage.error),
               stage.error);
    const std::vector<uint32_t> before = tokens_of(session.get());
    CHECK(stage.tokens_of(text) == before);
    const SessionHandle fork = stage.fork_of(session.get());
    const Said expected = stage.rest_of_fork(fork.get(), request);
    const Said found = stage.run_alone(text, in_slices);
    CHECK(found.story.tokens == expected.story.tokens);
    CHECK(stage.reused == before.size() - 1);
    CHECK(stage.said[0] == stage.cast.alone(0));
    require_ok(pumice_session_run(session.get(), &stage.error), stage.error);
    take_events(session.get(), told);
    CHECK(told.tokens == whole.tokens);
  }
}

TEST_CASE("what cannot be saved, restored or begun with, and texts that end beside it") {
  const Player player;
  const TemporaryFolder folder;
  Stage stage(player.model.get(), 2);
  pumice_error& error = stage.error;
  pumice_batch* batch = stage.batch.get();
  const auto said = [&](const char* words) {
    return std::string(error.message).find(words) != std::string::npos;
  };
  const std::string file = (folder.path() / "text").string(), none = (folder.path() / "none").string();
  CHECK(pumice_batch_save(batch, 7, file.c_str(), &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(said("text is 7"));
  const uint32_t stopped = stage.add(Cast::stopped);
  bool active = true;
  while (active) require_ok(pumice_batch_step(batch, &active, &error), error); // nobody polls
  require_ok(pumice_batch_save(batch, stopped, file.c_str(), &error), error);
  const SessionHandle session = make_session(player.model.get(), session_like(options_of(1)));
  require_ok(pumice_session_restore(session.get(), file.c_str(), &error), error);
  CHECK(tokens_of(session.get()) == stage.tokens_of(stopped));
  stage.take();
  CHECK(stage.said[Cast::stopped] == stage.cast.alone(Cast::stopped));
  CHECK(pumice_batch_save(batch, stopped, file.c_str(), &error) == PUMICE_INVALID_ARGUMENT);
  // What was sampled behind a stop string does not count.
  const std::vector<uint32_t> kept = tokens_of(session.get());
  CHECK(stage.said_in(Cast::stopped, kept) == stage.cast.alone(Cast::stopped).story.tokens.size());

  pumice_request request = {sizeof request};
  uint32_t text = 0;
  CHECK(pumice_batch_restore(batch, none.c_str(), &request, &text, &error) == PUMICE_NOT_FOUND);
  CHECK(pumice_batch_read(batch, "rubbish", 7, &request, &text, &error) == PUMICE_INVALID_FILE);
  const pumice_write_function refuses = [](void*, const void*, size_t) { return false; };
  const uint32_t running = stage.add(0);
  stage.step();
  CHECK(pumice_batch_write(batch, running, refuses, nullptr, &error) == PUMICE_IO);
  pumice_session_options other = session_like(options_of(1));
  other.cache = PUMICE_CACHE_F32;
  const SessionHandle wide = make_session(player.model.get(), other);
  CHECK(pumice_batch_fork(batch, wide.get(), &request, &text, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(said("options.cache"));
  const ModelHandle second = load(player.device.get(), fixtures().story().string());
  const SessionHandle foreign = make_session(second.get(), session_like(options_of(1)));
  CHECK(pumice_batch_fork(batch, foreign.get(), &request, &text, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(said("the same model"));
  CHECK(pumice_batch_fork(batch, nullptr, &request, &text, &error) == PUMICE_INVALID_ARGUMENT);
  const SessionHandle empty = make_session(player.model.get(), session_like(options_of(1)));
  CHECK(pumice_batch_fork(batch, empty.get(), &request, &text, &error) == PUMICE_INVALID_ARGUMENT);
  require_ok(pumice_session_suspend(session.get(), &error), error);
  CHECK(pumice_batch_fork(batch, session.get(), &request, &text, &error) == PUMICE_NOT_READY);
  while (stage.step()) {
  }
  CHECK(stage.said[0] == stage.cast.alone(0));
  pumice_batch_options options = options_of(2);
  options.max_stall_us = -1;
  pumice_batch* made = nullptr;
  CHECK(pumice_batch_create(player.model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(said("options.max_stall_us is -1"));
}

TEST_CASE("a newcomer's prompt is read a token a step where the others may not wait") {
  const Player player;
  for (const float limit : {0.0f, 1.0f}) {
    CAPTURE(limit);
    pumice_batch_options options = options_of(2);
    options.max_stall_us = limit;
    Stage stage(player.model.get(), options);
    stage.add(0);
    while (stage.said[0].story.tokens.size() < 3) REQUIRE(stage.step());
    stage.add(4); // three chunks
    const size_t before = stage.said[0].story.tokens.size();
    while (stage.said[4].story.tokens.empty() && stage.said[0].story.finish_reason == PUMICE_FINISH_NONE)
      REQUIRE(stage.step());
    const size_t told = stage.said[0].story.tokens.size() - before;
    if (limit > 0) CHECK(told > 14); // to its end
    if (limit == 0) CHECK(told < 9);
    while (stage.step()) {
    }
    CHECK(stage.said[0] == stage.cast.alone(0));
    CHECK(stage.said[4] == stage.cast.alone(4));
  }
}

TEST_CASE("texts that begin alike read their beginning once, in slices too, and in few pages") {
  const Player player;
  const std::string beginning = "Once upon a time there was a big dog. The dog liked to run and to play with "
                                "a red ball in the park. One "
                                "day the dog could not find the ball. The dog looked here and there. He "
                                "asked a bird, and he asked a cat. "
                                "The cat had seen the ball under a tree, and the dog ran to the tree. ";
  const char* const ends[] = {"There was", "He saw", "Then a man", "The ball"};
  pumice_error error;
  const auto request_of = [&](const std::string& text) {
    pumice_request request = {sizeof request};
    request.text = text.c_str();
    request.new_conversation = true;
    request.max_tokens = 10;
    return request;
  };
  std::vector<std::vector<uint32_t>> alone;
  pumice_session_options session_options = session_like(options_of(1));
  for (const char* end : ends) {
    const SessionHandle session = make_session(player.model.get(), session_options);
    const std::string text = beginning + end;
    const pumice_request request = request_of(text);
    require_ok(pumice_session_generate(session.get(), &request, &error), error);
    require_ok(pumice_session_run(session.get(), &error), error);
    Story story;
    while (const pumice_event* event = pumice_session_poll(session.get())) add_event(*event, story);
    alone.push_back(story.tokens);
  }
  for (const std::pair<uint32_t, bool>& way :
       {std::pair(0u, false), std::pair(0u, true), std::pair(128u, true), std::pair(200u, false)}) {
    const uint32_t cache_tokens = way.first;
    const bool in_slices = way.second;
    CAPTURE(cache_tokens);
    CAPTURE(in_slices);
    pumice_batch_options options = options_of(4);
    options.cache_tokens = cache_tokens;
    const BatchHandle batch = make_batch(player.model.get(), options);
    std::map<uint32_t, Story> stories;
    std::map<uint32_t, uint32_t> reused;
    std::vector<uint32_t> ids;
    for (const char* end : ends) {
      const std::string text = beginning + end;
      const pumice_request request = request_of(text);
      require_ok(pumice_batch_add(batch.get(), &request, &ids.emplace_back(), &error), error);
    }
    pumice_slice slice = {sizeof slice};
    for (bool active = true; active;) {
      if (in_slices) {
        require_ok(pumice_work_advance(pumice_batch_work(batch.get()), 200, nullptr, &slice, &error), error);
        active = slice.active;
      } else {
        require_ok(pumice_batch_step(batch.get(), &active, &error), error);
      }
      while (const pumice_event* event = pumice_batch_poll(batch.get())) {
        add_event(*event, stories[event->text_id]);
        reused[event->text_id] = event->reused;
      }
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      CHECK(stories[ids[i]].tokens == alone[i]);
      CHECK((i > 0 || reused[ids[i]] == 0));
      CHECK((i == 0 || in_slices || reused[ids[i]] >= 64)); // in slices with pages alone
    }
  }
}
