// `pumice chat` with a model that sees.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/typed_terminal.h"
#include "support/files/paths.h"
#include "support/files/vision_folder.h"
#include "support/require.h"
#include "text/formats/base64.h"

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
  write_vision_folder(folder);
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

TEST_CASE("pictures in a conversation are read once, changed, saved and loaded") {
  const TemporaryFolder folder;
  write_vision_folder(folder);
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
  // Messages that have a picture in themselves.
  const std::string url = "data:image/png;base64," + text::encode_base64(file_text(b));
  json part = {{"type", "image_url"}, {"image_url", {{"url", url}}}};
  const auto write_part = [&](const std::string& name) {
    json message = {{"role", "user"}, {"content", json::array({part})}};
    folder.write(name, json({{"messages", json::array({message})}}).dump());
  };
  write_part("url.json");
  CHECK(gives("/load " + (folder.path() / "url.json").string(), "loaded 1 message"));
  CHECK(gives("/save " + (folder.path() / "again.json").string(), "saved to"));
  CHECK(file_text(folder.path() / "again.json").find(url) != std::string::npos);
  part["image_url"]["url"] = "https://example.com/a.png";
  write_part("far.json");
  CHECK(gives("/load " + (folder.path() / "far.json").string(), "content[0].image_url.url: only data URLs"));
  terminal.type("\x04");
  CHECK(terminal.end() == 0);
}
