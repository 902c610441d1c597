// `pumice chat` and the C interface answer the same, with pictures and without.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "media/audio.h"
#include "support/command/chats.h"
#include "support/command/written.h"
#include "support/files/vision_folder.h"
#include "support/files/whisper_folder.h"
#include "support/vision_player.h"

using namespace pumice;

namespace {

const std::string shipped = (pretrained_folder() / "chat-2m.gguf").string();

CommandResult chat_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "chat");
  for (const char* each : {"--temp", "0", "-n", "4", "--kv", "f32"}) arguments.push_back(each);
  return pumice_command(arguments);
}

void say(pumice_chat* chat, const char* role, const char* content) {
  pumice_message message = {sizeof message};
  message.role = role;
  message.content = content;
  pumice_error error;
  require_ok(pumice_chat_add(chat, &message, &error), error);
}

} // namespace

TEST_CASE("the C interface draws answers as the command does, with what is usual") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get(), shipped);
  const SessionHandle session = make_session(model.get());
  struct Asked {
    const char *system, *question;
    uint64_t seed;
  };
  for (const Asked& each :
       {Asked{"", "What does a cow say?", 1}, Asked{"", "Tell me a short story about a dog.", 2026},
        Asked{"Answer in one word.", "Tell me a short story about a dog.", 7}}) {
    CAPTURE(each.question);
    const ChatHandle chat = make_chat(model.get());
    if (*each.system) say(chat.get(), "system", each.system);
    say(chat.get(), "user", each.question);
    pumice_sampling sampling = {sizeof sampling};
    pumice_error error;
    require_ok(pumice_sampling_usual(&sampling, &error), error);
    sampling.seed = each.seed;
    pumice_request request = {sizeof request};
    request.chat = chat.get();
    request.max_tokens = 24;
    request.sampling = &sampling;
    const Written answer = written_by_session(session.get(), request);
    const CommandResult answered = pumice_command({"chat", shipped, each.question, "--system", each.system,
                                                   "-n", "24", "--seed", std::to_string(each.seed)});
    CAPTURE(answered.err);
    CHECK(answered.out == answer.text + "\n");
  }
}

TEST_CASE("the C interface answers a picture's file as the command does") {
  const TemporaryFolder folder;
  write_vision_folder(folder);
  const std::string path = folder.path().string(), picture = write_picture(folder, "a.png", 1);
  const std::string file = file_text(picture);
  const DeviceHandle& device = shared_device();
  pumice_load_options load_options = {sizeof load_options};
  load_options.vision = 1;
  const ModelHandle model = load(device.get(), path, load_options);
  pumice_error error;
  pumice_session_options options = {sizeof options};
  options.cache = PUMICE_CACHE_F32;
  options.pictures = 1;
  const SessionHandle session = make_session(model.get(), options);
  const ChatHandle chat = make_chat(model.get());
  pumice_picture shown = {sizeof shown};
  shown.file = file.data();
  shown.file_bytes = file.size();
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = "w20 w21";
  message.pictures = &shown;
  message.picture_count = 1;
  require_ok(pumice_chat_add(chat.get(), &message, &error), error);
  pumice_request request = {sizeof request};
  request.chat = chat.get();
  request.max_tokens = 4;
  const std::string answer = written_by_session(session.get(), request).text;
  CHECK(!answer.empty());
  CHECK(chat_command({path, "--image", picture, "w20 w21"}).out == answer + "\n");
}

TEST_CASE("the C interface answers files of pictures as the command does, however a model prepares them") {
  using namespace picture_tests;
  for (const VisionModel& fixture : {qwen_vl("qwen3-vl"), smolvlm(), gemma3_vision()}) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    std::vector<std::string> arguments = {player.folder.path().string()}, files;
    for (const auto& [height, width] : {std::pair(29u, 61u), {12u, 80u}}) {
      const std::string path = (player.folder.path() / fmt::format("{}.png", height)).string();
      REQUIRE(write_png(patterned_picture(height, width), path).ok());
      files.push_back(file_text(path));
      arguments.insert(arguments.end(), {"--image", path});
    }
    arguments.push_back("w226 w28");
    std::vector<pumice_picture> pictures;
    for (const std::string& file : files) {
      pumice_picture& picture = pictures.emplace_back();
      picture = {sizeof picture};
      picture.file = file.data();
      picture.file_bytes = file.size();
    }
    pumice_message message = {sizeof message};
    message.role = "user";
    message.content = "w226 w28";
    message.pictures = pictures.data();
    message.picture_count = pictures.size();
    const ChatHandle asked = player.make_chat();
    pumice_error error;
    require_ok(pumice_chat_add(asked.get(), &message, &error), error);
    const SessionHandle session = player.open_session(2);
    const std::vector<uint32_t> tokens = player.answer(session.get(), asked.get(), 0, 4);
    REQUIRE(tokens.size() == 4);
    const CommandResult shown = chat_command(arguments);
    CAPTURE(shown.err);
    CHECK(shown.out == words(tokens) + "\n");
  }
}

TEST_CASE("the C interface answers what it hears as the command does") {
  using namespace picture_tests;
  for (const VisionModel& fixture : {voxtral(), qwen2_audio()}) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    const std::string file = wav_bytes(wail(40000));
    const std::string path = player.folder.write("sound.wav", file).string();
    const Audio audio = require(parse_audio(std::as_bytes(std::span(file)), "sound.wav"));
    pumice_sound sound = {sizeof sound};
    sound.samples = audio.samples.data();
    sound.count = audio.samples.size();
    sound.rate = audio.rate;
    pumice_message message = {sizeof message};
    message.role = "user";
    message.content = "w226 w28";
    message.sounds = &sound;
    message.sound_count = 1;
    const ChatHandle asked = player.make_chat();
    pumice_error error;
    require_ok(pumice_chat_add(asked.get(), &message, &error), error);
    const SessionHandle session = player.open_session(2);
    const std::vector<uint32_t> tokens = player.answer(session.get(), asked.get(), 0, 4);
    REQUIRE(tokens.size() == 4);
    const CommandResult heard = chat_command({player.folder.path().string(), "--audio", path, "w226 w28"});
    CAPTURE(heard.err);
    CHECK(heard.out == words(tokens) + "\n");
  }
}
