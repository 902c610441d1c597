// What `pumice chat` does with a model's thinking.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/typed_terminal.h"
#include "support/files/word_folder.h"

using nlohmann::json;

namespace {

// The prompt begins the thinking, as those of newer models do, unless it is asked not to.
constexpr const char* chat_template =
    "{% for m in messages %}{{ m.content }} {% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}w9{% else %}w8 <think>{% endif %}"
    "{# </think> #}";

// A fixture whose answer to a question begins with a thought of one word: the second one is called </think>.
class ThinkingModel {
public:
  ThinkingModel() {
    write_word_folder(folder, "llama-gqa");
    folder.write("tokenizer_config.json", json{{"chat_template", chat_template}}.dump());
    // A question whose answer's words differ.
    for (uint32_t id = 20; id < 60 && std::set(words_.begin(), words_.end()).size() < 5; ++id) {
      question = word(id);
      words_ = words(answer("show"));
    }
    REQUIRE(std::set(words_.begin(), words_.end()).size() == 5);
    std::ifstream file(folder.path() / "tokenizer.json");
    json tokenizer = json::parse(file);
    json& vocabulary = tokenizer["model"]["vocab"];
    REQUIRE(vocabulary.contains(words_[1]));
    vocabulary["</think>"] = vocabulary[words_[1]];
    vocabulary.erase(words_[1]);
    folder.write("tokenizer.json", tokenizer.dump());
  }

  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"chat", folder.path().string(), "--temp", "0", "-n", "5"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string answer(const char* thinking) const {
    const CommandResult result = pumice_command(arguments({question, "--thinking", thinking}));
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  }
  const std::string& thought() const { return words_[0]; }
  std::string said() const { return words_[2] + " " + words_[3] + " " + words_[4]; }

  TemporaryFolder folder;
  std::string question;

private:
  static std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
  }

  std::vector<std::string> words_;
};

} // namespace

TEST_CASE("a model's thinking is shown, hidden, or not asked for") {
  const ThinkingModel model;
  CHECK(model.answer("show") == model.thought() + "\n\n" + model.said() + "\n");
  CHECK(model.answer("hide") == model.said() + "\n");
  const std::string without = model.answer("off");
  CHECK(without.find(model.said()) == std::string::npos); // another prompt
  CHECK(without.size() > 2);
  CHECK(fails_saying(pumice_command(model.arguments({model.question, "--thinking", "loud"})),
                     {"--thinking", "loud", "hide"}) == "");
}

TEST_CASE("thinking is dimmed at a terminal, folded, and shown afterwards") {
  const ThinkingModel model;
  TypedTerminal terminal(model.arguments({}));
  CAPTURE(terminal.shown());
  REQUIRE(terminal.wait_for("Ctrl-D ends"));
  REQUIRE(terminal.wait_for("> "));
  const auto gives = [&](const std::string& typed, const std::string& shown) {
    terminal.type(typed + "\n");
    return terminal.wait_for(shown) && terminal.wait_for("> ");
  };
  CHECK(gives(model.question, "\033[2m" + model.thought()));
  CHECK(gives("/thinking loud", "expected show, hide, off"));
  CHECK(gives("/thinking hide", "\n"));
  CHECK(gives("/regenerate", "(thinking)"));
  CHECK(gives("/thinking show", "\033[2m" + model.thought())); // of the last answer
  CHECK(gives("/thinking off", "\n"));
  CHECK(gives("/stats", "thinking off"));
  terminal.type("/exit\n");
  CHECK(terminal.end() == 0);
  CHECK(terminal.shown().find(model.said()) != std::string::npos);
}
