// `pumice chat` with a model that sees.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/command/chats.h"
#include "support/command/command.h"
#include "support/command/typed_terminal.h"
#include "support/embedding.h"
#include "support/files/paths.h"
#include "support/files/seeing_folder.h"
#include "support/require.h"
#include "support/seeing_player.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::vector<std::string> plain = {"--temp", "0", "-n", "4", "--kv", "f32"};

CommandResult chat(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "chat");
  arguments.insert(arguments.end(), plain.begin(), plain.end());
  return pumice_command(arguments);
}

std::vector<std::string> talk(const TemporaryFolder& folder) {
  std::vector<std::string> arguments = {"chat", folder.path().string()};
  arguments.insert(arguments.end(), plain.begin(), plain.end());
  return arguments;
}

bool edits_lines() {
  return pumice_command({"--version"}).out.find("line editing") == std::string::npos;
}

} // namespace

TEST_CASE("a picture stands in the prompt where the template has it") {
  const TemporaryFolder folder;
  write_seeing_folder(folder);
  const std::string model = folder.path().string();
  const std::string a = write_picture(folder, "a.png", 1), b = write_picture(folder, "b.png", 77);
  const CommandResult shown = chat({model, "--image", a, "w20 w21"});
  CAPTURE(shown.err);
  REQUIRE(shown.status == 0);
  const auto captioned = [&](const std::string& picture) {
    return pumice_command({"caption", model, picture, "--prompt", "w4 <image> w20 w21 w6", "-n", "4"}).out;
  };
  CHECK(shown.out == captioned(a));
  CHECK(chat({model, "--image", b, "w20 w21"}).out == captioned(b));
  CHECK(chat({model, "--image", a, "--image", b, "w20"}).status == 0);

  // What a person spells is no picture.
  CHECK(chat({model, "w20 <image> w21"}).status == 0);
  const std::string text = folder.write("text.png", std::string_view("this is no picture")).string();
  CHECK(fails_saying(chat({model, "--image", text, "w20"}), {"text.png", "PNG"}) == "");
  CHECK(fails_saying(chat({model, "--image", "none.png", "w20"}), {"none.png"}) == "");
  const std::string blind =
      folder.write("blind.jinja", std::string_view("w4 {{ messages | length }} w6")).string();
  CHECK(fails_saying(chat({model, "--image", a, "w20", "--template", blind}),
                     {"no token 319", "--template"}) == "");
  const std::string reader = (pretrained_folder() / "chat-2m.gguf").string();
  CHECK(fails_saying(chat({reader, "--image", a, "Hello"}), {reader, "does not see"}) == "");
  // 16 rows of a picture and four words.
  CHECK(fails_saying(chat({model, "--image", a, "w20 w21", "--context", "20"}), {"20 tokens", "context"}) ==
        "");
}

TEST_CASE("the C interface answers a picture's file as the command does") {
  const TemporaryFolder folder;
  write_seeing_folder(folder);
  const std::string path = folder.path().string(), picture = write_picture(folder, "a.png", 1);
  const std::string file = file_text(picture);
  const DeviceHandle& device = shared_device();
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_load_options load_options = {sizeof load_options};
  load_options.sees = 1;
  pumice_model* made = nullptr;
  pumice_error error;
  require_ok(pumice_model_load(device.get(), &source, &load_options, &made, &error), error);
  const ModelHandle model(made);
  pumice_session_options options = {sizeof options};
  options.cache = PUMICE_CACHE_F32;
  options.pictures = 1;
  const SessionHandle session = make_session(model.get(), options);
  const ChatHandle conversation = make_chat(model.get());
  pumice_picture shown = {sizeof shown};
  shown.file = file.data();
  shown.file_bytes = file.size();
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = "w20 w21";
  message.pictures = &shown;
  message.picture_count = 1;
  require_ok(pumice_chat_add(conversation.get(), &message, &error), error);
  pumice_request request = {sizeof request};
  request.chat = conversation.get();
  request.max_tokens = 4;
  require_ok(pumice_session_generate(session.get(), &request, &error), error);
  require_ok(pumice_session_run(session.get(), &error), error);
  std::string answer;
  while (const pumice_event* event = pumice_session_poll(session.get())) {
    if (event->part == PUMICE_PART_CONTENT) answer += event->text;
  }
  CHECK(!answer.empty());
  CHECK(chat({path, "--image", picture, "w20 w21"}).out == answer + "\n");
}

TEST_CASE("the C interface answers files of pictures as the command does, however a model prepares them") {
  using namespace picture_tests;
  for (const SeeingModel& fixture : {qwen2_5_vl(), smolvlm(), gemma3_vision()}) {
    CAPTURE(std::string(fixture.name));
    const SeeingPlayer player(fixture);
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
    const CommandResult shown = chat(arguments);
    CAPTURE(shown.err);
    CHECK(shown.out == words(tokens) + "\n");
  }
}

TEST_CASE("pictures in a conversation are read once, changed, saved and loaded") {
  const TemporaryFolder folder;
  write_seeing_folder(folder);
  const std::string a = write_picture(folder, "a.png", 1), b = write_picture(folder, "b.png", 77);
  const std::string text = folder.write("text.png", std::string_view("this is no picture")).string();
  const std::filesystem::path saved = folder.path() / "talk.json";
  TypedTerminal terminal(talk(folder));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for("Ctrl-D ends"));
  REQUIRE(terminal.wait_for("> "));
  const auto gives = [&](const std::string& typed, const std::string& shown) {
    terminal.type(typed + "\n");
    return terminal.wait_for(shown) && terminal.wait_for("> ");
  };
  CHECK(gives("/image", "needs the name of a file"));
  CHECK(gives("/image none.png", "none.png"));
  CHECK(gives("/image " + text, "PNG"));
  CHECK(gives("/image " + a, "a part of the next question"));
  CHECK(gives("w20 w21", "20 tokens, "));   // w4, 16 rows, the question, w6
  CHECK(gives("w22", "4 tokens, "));        // the end of the answer, and w4 w22 w6
  CHECK(gives("/regenerate", "1 token, ")); // of a prompt that was read
  CHECK(gives("/save " + saved.string(), "saved to"));
  CHECK(gives("/reset", "\n"));
  CHECK(gives("/image " + b, "a part of the next question"));
  CHECK(gives("w20 w21", ", 1 reused")); // another picture is another prefix
  CHECK(gives("/load " + saved.string(), "loaded 4 messages"));
  CHECK(gives("/regenerate", ", 1 reused"));
  CHECK(gives("/regenerate", "1 token, "));
  // The pictures of a question that is changed stay.
  CHECK(gives("/reset", "\n"));
  CHECK(gives("/image " + a, "a part of the next question"));
  CHECK(gives("w20 w21", "1 token, "));
  terminal.type("/edit\n");
  if (edits_lines()) CHECK(terminal.wait_for("w20 w21")); // behind the prompt
  terminal.type(" w23\n");
  CHECK(terminal.wait_for(edits_lines() ? ", 19 reused" : ", 17 reused"));
  CHECK(terminal.wait_for("> "));

  const json messages = json::parse(file_text(saved))["messages"];
  REQUIRE(messages.size() == 4);
  REQUIRE(messages[0]["content"].size() == 2);
  CHECK(messages[0]["content"][0]["type"] == "image");
  CHECK(messages[0]["content"][0]["path"] == a);
  CHECK(messages[0]["content"][1]["text"] == "w20 w21");
  CHECK(messages[2]["content"] == "w22");
  std::filesystem::copy_file(b, a, std::filesystem::copy_options::overwrite_existing);
  CHECK(gives("/load " + saved.string(), "is another picture than"));
  std::filesystem::remove(a);
  CHECK(gives("/load " + saved.string(), "a.png"));
  folder.write("bad.json",
               std::string_view(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"));
  CHECK(gives("/load " + (folder.path() / "bad.json").string(), "needs a \"path\""));
  terminal.type("\x04");
  CHECK(terminal.end() == 0);
}
