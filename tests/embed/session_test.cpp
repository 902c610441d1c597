// A session through everything that may happen to it in a game.
#include <atomic>
#include <chrono>
#include <thread>

#include "support/embedding.h"
#include "support/files/temporary_folder.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

struct Player {
  DeviceHandle device = make_device();
  ModelHandle model = load(device.get());
  SessionHandle session = [this] {
    pumice_session_options options = {sizeof options};
    options.context = 192;
    options.chunk = 16;
    return make_session(model.get(), options);
  }();
};

// Advances until so many tokens have come.
void advance(pumice_session* session, size_t tokens, Story& story) {
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  do {
    require_ok(pumice_work_advance(pumice_session_work(session), 500, nullptr, &slice, &error), error);
    take_events(session, story);
  } while (slice.active && story.tokens.size() < tokens);
}

void finish(pumice_session* session, Story& story) {
  pumice_error error;
  require_ok(pumice_session_run(session, &error), error);
  take_events(session, story);
}

pumice_sampling drawing() {
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 0.9f;
  sampling.top_k = 40;
  sampling.repeat_penalty = 1.1f;
  sampling.seed = 11;
  return sampling;
}

} // namespace

TEST_CASE("slices, and the rest in whole steps, give the same text") {
  Player player;
  const pumice_sampling sampling = drawing();
  const Story expected = tell(player.session.get(), prompt, 40, &sampling);
  for (const size_t in_slices : {size_t{0}, size_t{1}, size_t{13}}) {
    Story story;
    begin(player.session.get(), prompt, 40, &sampling);
    advance(player.session.get(), in_slices, story);
    finish(player.session.get(), story);
    CHECK(story == expected);
  }
}

TEST_CASE("a conversation goes on where it was") {
  Player player;
  const Story first = tell(player.session.get(), prompt, 8);
  pumice_error error;
  pumice_request more = {sizeof more};
  more.max_tokens = 8;
  require_ok(pumice_session_generate(player.session.get(), &more, &error), error);
  Story second;
  finish(player.session.get(), second);
  const Story both = tell(player.session.get(), prompt, 16);
  CHECK(first.text + second.text == both.text);
  CHECK(tokens_of(player.session.get()).size() > 16);
}

TEST_CASE("a suspended session gives all its memory back, and goes on in the middle of a text") {
  Player player;
  const uint64_t with = allocated(player.device.get());
  const pumice_sampling sampling = drawing();
  const Story expected = tell(player.session.get(), prompt, 40, &sampling);
  Story story;
  begin(player.session.get(), prompt, 40, &sampling);
  advance(player.session.get(), 9, story);
  pumice_error error;
  require_ok(pumice_session_suspend(player.session.get(), &error), error);
  take_events(player.session.get(), story);
  pumice_model_info info = {sizeof info};
  require_ok(pumice_model_get_info(player.model.get(), &info, &error), error);
  CHECK(allocated(player.device.get()) == info.weight_bytes);
  CHECK(tokens_of(player.session.get()).size() > 9);
  CHECK(pumice_session_run(player.session.get(), &error) == PUMICE_NOT_READY);
  CHECK(std::string(error.message).find("suspended") != std::string::npos);
  require_ok(pumice_session_resume(player.session.get(), player.model.get(), &error), error);
  CHECK(allocated(player.device.get()) == with);
  finish(player.session.get(), story);
  CHECK(story == expected);
}

TEST_CASE("a session moves to another device in the middle of a text" * doctest::test_suite("rest")) {
  Player player;
  const pumice_sampling sampling = drawing();
  const Story expected = tell(player.session.get(), prompt, 40, &sampling);
  Story story;
  begin(player.session.get(), prompt, 40, &sampling);
  advance(player.session.get(), 9, story);
  const DeviceHandle other = make_device();
  const ModelHandle again = load(other.get());
  pumice_error error;
  require_ok(pumice_session_resume(player.session.get(), again.get(), &error), error);
  player.model.reset();
  player.device.reset();
  finish(player.session.get(), story);
  CHECK(story == expected);

  pumice_load_options options = {sizeof options};
  options.quantize = "Q4_0"; // other keys and values
  const ModelHandle another = load(other.get(), stories, options);
  CHECK(pumice_session_resume(player.session.get(), another.get(), &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("another model") != std::string::npos);
}

TEST_CASE("a session is saved to a file") {
  Player player;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "session").string();
  tell(player.session.get(), prompt, 8);
  pumice_error error;
  require_ok(pumice_session_save(player.session.get(), path.c_str(), &error), error);
  pumice_request more = {sizeof more};
  more.max_tokens = 8;
  require_ok(pumice_session_generate(player.session.get(), &more, &error), error);
  Story expected;
  finish(player.session.get(), expected);

  Player other;
  require_ok(pumice_session_restore(other.session.get(), path.c_str(), &error), error);
  require_ok(pumice_session_generate(other.session.get(), &more, &error), error);
  Story story;
  finish(other.session.get(), story);
  CHECK(story == expected);
  CHECK(pumice_session_restore(other.session.get(), stories.c_str(), &error) == PUMICE_INVALID_FILE);
}

TEST_CASE("saving replaces a file only, and only by a whole one") {
  Player player;
  tell(player.session.get(), prompt, 8);
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const auto save = [&](const std::string& to, pumice_error& error) {
    return pumice_session_save(player.session.get(), to.c_str(), &error);
  };
  pumice_error error;
  std::filesystem::create_symlink("file", path("link"));
  require_ok(save(path("link"), error), error);
  CHECK(std::filesystem::is_symlink(path("link")));
  require_ok(pumice_session_restore(player.session.get(), path("file").c_str(), &error), error);
  // Links, so that nothing could happen to the devices of the system.
  std::filesystem::create_symlink("/dev/null", path("null"));
  require_ok(save(path("null"), error), error);
  CHECK(std::filesystem::is_symlink(path("null")));
  std::filesystem::create_symlink("/dev/full", path("full"));
  CHECK(save(path("full"), error) == PUMICE_IO);
  CHECK(std::string_view(error.message).find("No space left") != std::string_view::npos);
  CHECK(std::filesystem::is_symlink(path("full")));
  CHECK(save(folder.path().string(), error) == PUMICE_INVALID_ARGUMENT);
  std::filesystem::permissions(path("file"), std::filesystem::perms::owner_read);
  CHECK(save(path("file"), error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 4);
}

TEST_CASE("events come by callback where there is one") {
  Player player;
  const Story expected = tell(player.session.get(), prompt, 12);
  Story told;
  pumice_session_options options = {sizeof options};
  options.on_event = [](void* user, const pumice_event* event) {
    add_event(*event, *static_cast<Story*>(user));
  };
  options.user = &told;
  const SessionHandle session = make_session(player.model.get(), options);
  CHECK(tell(session.get(), prompt, 12) == Story{});
  CHECK(told == expected);
}

TEST_CASE("what is being generated can be cancelled") {
  Player player;
  const Story expected = tell(player.session.get(), prompt, 100);
  begin(player.session.get(), prompt, 100);
  pumice_error error;
  pumice_work_cancel(pumice_session_work(player.session.get()));
  pumice_slice slice = {sizeof slice};
  CHECK(pumice_work_advance(pumice_session_work(player.session.get()), 500, nullptr, &slice, &error) ==
        PUMICE_CANCELLED);
  CHECK(pumice_work_advance(pumice_session_work(player.session.get()), 500, nullptr, &slice, &error) ==
        PUMICE_OK);
  CHECK_FALSE(slice.active);
  Story story;
  take_events(player.session.get(), story);
  CHECK(story.finish_reason == PUMICE_FINISH_CANCELLED);
  CHECK(tell(player.session.get(), prompt, 100) == expected);
}

TEST_CASE("invalid requests are errors and change nothing") {
  Player player;
  const Story expected = tell(player.session.get(), prompt, 12);
  begin(player.session.get(), prompt, 12);
  Story story;
  advance(player.session.get(), 3, story);
  pumice_error error;
  const uint32_t unknown = 1u << 30;
  pumice_request request = {sizeof request};
  request.tokens = &unknown;
  request.token_count = 1;
  CHECK(pumice_session_generate(player.session.get(), &request, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("vocabulary") != std::string::npos);
  const std::vector<uint32_t> many(400, 5);
  request.tokens = many.data();
  request.token_count = many.size();
  CHECK(pumice_session_generate(player.session.get(), &request, &error) == PUMICE_CONTEXT_FULL);
  CHECK(std::string(error.message).find("context") != std::string::npos);
  CHECK(pumice_work_advance(pumice_session_work(player.session.get()), 0, nullptr, nullptr, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_work_record(pumice_session_work(player.session.get()), nullptr, 100, nullptr, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_session_generate(nullptr, &request, &error) == PUMICE_INVALID_ARGUMENT);
  request = {sizeof request + 8};
  CHECK(pumice_session_generate(player.session.get(), &request, nullptr) == PUMICE_INVALID_ARGUMENT);
  finish(player.session.get(), story);
  CHECK(story == expected);
}

TEST_CASE("a session that shifts keeps what is behind a part that is left out") {
  const ModelHandle model = load(shared_device().get());
  std::vector<uint32_t> all, shorter;
  for (uint32_t i = 0; i < 120; ++i) {
    all.push_back(3 + i * 37 % 400);
    if (i < 20 || i >= 60) shorter.push_back(all.back());
  }
  const auto reused = [&](uint32_t shift) {
    pumice_session_options options = {sizeof options};
    options.context = 192;
    options.shift = shift;
    const SessionHandle session = make_session(model.get(), options);
    uint32_t tokens = 0;
    for (const std::vector<uint32_t>* conversation : {&all, &shorter}) {
      pumice_request request = {sizeof request};
      request.tokens = conversation->data();
      request.token_count = conversation->size();
      request.new_conversation = true;
      request.max_tokens = 3;
      pumice_error error;
      require_ok(pumice_session_generate(session.get(), &request, &error), error);
      require_ok(pumice_session_run(session.get(), &error), error);
      while (const pumice_event* event = pumice_session_poll(session.get())) tokens = event->reused;
    }
    return tokens;
  };
  CHECK(reused(0) == 20);
  CHECK(reused(1) == shorter.size() - 1);

  pumice_session_options options = {sizeof options};
  options.shift = 1;
  options.cache = PUMICE_CACHE_Q8_0;
  pumice_session* made = nullptr;
  pumice_error error;
  CHECK(pumice_session_create(model.get(), &options, &made, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("Q8_0") != std::string::npos);
  options.shift = 2;
  CHECK(pumice_session_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
}
