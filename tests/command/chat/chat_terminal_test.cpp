#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/typed_terminal.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"

namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The model that answers, with a context that no answer fills before it is stopped.
std::filesystem::path model_with_long_context(const TemporaryFolder& folder) {
  std::string bytes = file_text(pretrained_folder() / "chat-2m.gguf");
  const std::string key = "llama.context_length";
  const size_t at = bytes.find(key);
  REQUIRE(at != std::string::npos);
  const uint32_t context = 60'000;
  std::memcpy(bytes.data() + at + key.size() + sizeof(uint32_t), &context, sizeof context); // behind the type
  return folder.write("long.gguf", bytes);
}

std::vector<std::string> chat_with(const std::filesystem::path& model, const TemporaryFolder& folder,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "chat", model.string(), "--temp", "0", "--cache", (folder.path() / "cache").string(), "--no-tune"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool edits_lines() {
  return pumice_command({"--version"}).out.find("line editing") == std::string::npos;
}

constexpr const char* ready = "Ctrl-D ends";
// Types a line and waits for what is shown, and then for the prompt.
auto answers_of(TypedTerminal& terminal) {
  return [&](const std::string& typed, const std::string& shown) {
    terminal.type(typed);
    return terminal.wait_for(shown) && terminal.wait_for("> ");
  };
}

constexpr const char* status = " tokens\r\n"; // the end of the line behind an answer

} // namespace

TEST_CASE("Ctrl-C stops an answer and not the chat") {
  const TemporaryFolder folder;
  // Nothing ends the answer: neither of the tokens that do may be chosen.
  TypedTerminal terminal(
      chat_with(model_with_long_context(folder), folder,
                {"--context", "60000", "--logit-bias", "2=-inf", "--logit-bias", "2051=-inf"}));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for(ready));
  terminal.type("What is 2 plus 3?\n");
  REQUIRE(terminal.wait_for("2 plus 3 is 5."));
  terminal.type("\x03");
  REQUIRE(terminal.wait_for(", stopped; context"));
  REQUIRE(terminal.wait_for("> "));
  const std::filesystem::path saved = folder.path() / "saved.json";
  terminal.type("/save " + saved.string() + "\n");
  REQUIRE(terminal.wait_for("saved to"));
  const nlohmann::json messages = nlohmann::json::parse(file_text(saved))["messages"];
  REQUIRE(messages.size() == 2);
  CHECK(messages[1]["content"].get<std::string>().starts_with("2 plus 3 is 5."));
  REQUIRE(terminal.wait_for("> "));
  terminal.type("\x03"); // on an empty line
  CHECK(terminal.end() == 130);
}

TEST_CASE("a conversation at a terminal can be changed, saved and loaded") {
  const TemporaryFolder folder;
  const std::filesystem::path model = pretrained_folder() / "chat-2m.gguf",
                              saved = folder.path() / "talk.json";
  {
    TypedTerminal terminal(chat_with(model, folder));
    CAPTURE(terminal.shown());
    REQUIRE(terminal.wait_for(ready));
    REQUIRE(terminal.wait_for("> "));
    const auto gives = answers_of(terminal);
    CHECK(gives("What is 2 plus 3?\n", "2 plus 3 is 5."));
    CHECK(gives("/regenerate\n", "1 token")); // all but the last token was read before
    CHECK(gives("/rest\n", "Did you mean /reset?"));
    CHECK(gives("/set tmp 1\n", "Did you mean temp?"));
    CHECK(gives("/set temp hot\n", "is not a number from 0 to 1000"));
    CHECK(gives("/set count 2\n", "\n"));
    CHECK(gives("/regenerate\n", "the answer is cut off"));
    CHECK(gives("/set count -1\n", "\n"));
    CHECK(gives("/image cat.png\n", "does not see"));
    CHECK(gives("/save " + model.string() + "\n", "MODEL is read from this file"));
    CHECK(gives("/load " + (folder.path() / "none.json").string() + "\n", "none.json"));
    CHECK(gives("/load " + folder.write("bad.json", std::string_view("[]")).string() + "\n", "bad.json"));
    if (edits_lines()) {
      terminal.type("/edit\n");
      CHECK(terminal.wait_for("What is 2 plus 3?")); // behind the prompt
      CHECK(gives("!\n", status));
    } else {
      CHECK(gives("/edit\n", "\n"));
      CHECK(gives("What is 2 plus 3?!\n", status));
    }
    CHECK(gives("/save " + saved.string() + "\n", "saved to"));
    terminal.type("What does\\\n");
    REQUIRE(terminal.wait_for("... "));
    CHECK(gives("a cow say?\n", status));
    CHECK(gives("/save " + saved.string() + "\n", "saved to")); // its own file again
    CHECK(gives("/reset\n", "\n"));
    CHECK(gives("/load " + saved.string() + "\n", "loaded 4 messages"));
    CHECK(gives("/stats\n", "so far: 4 messages"));
    terminal.type("\x04");
    CHECK(terminal.end() == 0);
  }
  const nlohmann::json messages = nlohmann::json::parse(file_text(saved))["messages"];
  REQUIRE(messages.size() == 4);
  CHECK(messages[0]["content"] == "What is 2 plus 3?!");
  CHECK(messages[2]["content"] == "What does\na cow say?");
  CHECK(pumice_command({"template", model.string(), "--messages", saved.string()})
            .out.starts_with("<s><|user|>What is 2 plus 3?!<|end|>"));
  // Another chat does not write over it, and remembers the lines.
  TypedTerminal terminal(chat_with(model, folder));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for(ready));
  REQUIRE(terminal.wait_for("> "));
  terminal.type("/save " + saved.string() + "\n");
  CHECK(terminal.wait_for("there is such a file"));
  REQUIRE(terminal.wait_for("> "));
  terminal.type("\x04");
  CHECK(terminal.end() == 0);
  if (edits_lines())
    CHECK(file_text(folder.path() / "cache" / "chat_history").find("/stats") != std::string::npos);
}

TEST_CASE("every command of a conversation is listed and does what it says") {
  const TemporaryFolder folder;
  TypedTerminal terminal(chat_with(pretrained_folder() / "chat-2m.gguf", folder));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for(ready));
  REQUIRE(terminal.wait_for("> "));
  const auto gives = answers_of(terminal);
  const size_t before = terminal.shown().size();
  CHECK(gives("/help\n", "Ctrl-D ends the conversation"));
  const std::string help = terminal.shown().substr(before);
  for (const char* name :
       {"/system TEXT", "/reset", "/regenerate", "/edit", "/save FILE", "/load FILE", "/set NAME VALUE",
        "/thinking show|hide|off", "/stats", "/image FILE", "/read FILE", "/help", "/exit"}) {
    CAPTURE(name);
    CHECK(help.find(name) != std::string::npos);
  }
  CHECK(gives("/system Be brief.\n", "\n"));
  CHECK(gives("What is 2 plus 3?\n", status));
  CHECK(gives("/stats\n", "so far: 3 messages"));
  CHECK(gives("/reset\n", "\n"));
  CHECK(gives("/stats\n", "so far: 1 message;")); // what says how to answer stays
  CHECK(gives("/system\n", "\n"));
  CHECK(gives("/stats\n", "so far: 0 messages"));
  CHECK(gives("/regenerate\n", "no question to answer again"));
  CHECK(gives("/edit\n", "no question to change"));
  CHECK(gives("/reset all\n", "takes nothing after it"));
  for (const char* name : {"/save", "/load", "/image", "/read"})
    CHECK(gives(std::string(name) + "\n", std::string(name) + " needs the name of a file"));
  CHECK(gives("/set temp\n", "needs a name and a value"));
  CHECK(gives("/set top-k 7\n", "\n"));
  CHECK(gives("/set parameter temperature hot\n", "is not a number from 0 to 1000")); // as Ollama has it
  CHECK(gives("/stats\n", "top-k 7"));
  terminal.type("\"\"\"What does\n");
  REQUIRE(terminal.wait_for("... "));
  CHECK(gives("a cow say?\"\"\"\n", status));
  const std::filesystem::path saved = folder.path() / "talk.json";
  CHECK(gives("/save " + saved.string() + "\n", "saved to"));
  CHECK(nlohmann::json::parse(file_text(saved))["messages"][0]["content"] == "What does\na cow say?");
  CHECK(gives(" /help is a question with a space before it\n", status));
  terminal.type("/bye\n");
  CHECK(terminal.end() == 0);
}

TEST_CASE("what is pasted is one question, Tab completes, and files can be read into a question") {
  const TemporaryFolder folder;
  TypedTerminal terminal(chat_with(pretrained_folder() / "chat-2m.gguf", folder));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for(ready));
  REQUIRE(terminal.wait_for("> "));
  const auto gives = answers_of(terminal);
  const auto asked = [&] {
    const std::filesystem::path saved = folder.path() / "talk.json";
    CHECK(gives("/save " + saved.string() + "\n", "saved to"));
    return nlohmann::json::parse(file_text(saved))["messages"].at(0)["content"].get<std::string>();
  };
  if (edits_lines()) {
    CHECK(gives("\033[200~What is\r\n2\tplus\ré?\033[201~\n", status));
    CHECK(asked() == "What is\n\n2\tplus\né?");
    CHECK(gives("/res\t\n", "\n")); // to /reset
    folder.write("a-page.txt", std::string_view("A cow says moo."));
    CHECK(gives("/re\ta\t" + (folder.path() / "a-p").string() + "\t\n", "is a part of the next question"));
  } else {
    CHECK(gives("/clear\n", "\n"));
    CHECK(gives("/read " + folder.write("a-page.txt", std::string_view("A cow says moo.")).string() + "\n",
                "is a part of the next question"));
  }
  CHECK(gives("What does a cow say?\n", status));
  CHECK(asked() == "A cow says moo.\n\nWhat does a cow say?");
  CHECK(gives("/?\n", "Ctrl-D ends the conversation"));
  terminal.type("\x04");
  CHECK(terminal.end() == 0);
}

TEST_CASE("a full context is named, and the oldest turns are forgotten if that is wanted") {
  const TemporaryFolder folder;
  const std::filesystem::path model = pretrained_folder() / "chat-2m.gguf";
  TypedTerminal terminal(chat_with(model, folder, {"--context", "64"}));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for(ready));
  REQUIRE(terminal.wait_for("> "));
  terminal.type("What is 2 plus 3?\n");
  REQUIRE(terminal.wait_for(status));
  REQUIRE(terminal.wait_for("> "));
  const std::string question = "What is 2 plus 4, and what is 2 plus 5, and what is 2 plus 6?\n";
  terminal.type(question);
  REQUIRE(terminal.wait_for("the context is full"));
  REQUIRE(terminal.wait_for("[y/n] "));
  terminal.type("n\n");
  REQUIRE(terminal.wait_for("the question was not asked"));
  REQUIRE(terminal.wait_for("> "));
  terminal.type(question);
  REQUIRE(terminal.wait_for("Forget the oldest 2 messages? [y/n] "));
  terminal.type("y\n");
  REQUIRE(terminal.wait_for(status));
  REQUIRE(terminal.wait_for("> "));
  terminal.type("\x04");
  CHECK(terminal.end() == 0);
}
