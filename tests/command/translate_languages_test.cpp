// `pumice translate --from` and `--to`: where models of many languages want a language's token.
#include <doctest/doctest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr uint32_t german = 300, english = 301;

// A fixture's model, of which two tokens name languages, or, if no names are given, are words.
struct Translator {
  TemporaryFolder folder;
  std::string model = folder.path().string();

  explicit Translator(const std::string& fixture, const std::vector<std::string>& names = {}) {
    write_word_folder(folder, fixture);
    json tokenizer = json::parse(std::ifstream(folder.path() / "tokenizer.json"));
    for (uint32_t i = 0; i < names.size(); ++i) {
      tokenizer["model"]["vocab"].erase(word(german + i));
      tokenizer["model"]["vocab"][names[i]] = german + i;
      json token = tokenizer["added_tokens"][0];
      token["id"] = german + i;
      token["content"] = names[i];
      tokenizer["added_tokens"].push_back(token);
    }
    folder.write("tokenizer.json", tokenizer.dump());
  }
  // What the decoder begins with.
  void start(uint32_t token) const {
    for (const char* name : {"config.json", "generation_config.json"}) {
      json settings = json::parse(std::ifstream(folder.path() / name));
      settings["decoder_start_token_id"] = token;
      settings.erase("forced_bos_token_id");
      folder.write(name, settings.dump());
    }
  }
  json tokens(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"translate", model, "-n", "9", "--json"});
    const CommandResult result = pumice_command(arguments);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out)["tokens"];
  }
  std::string fails(std::vector<std::string> arguments, const std::vector<std::string>& saying) const {
    arguments.insert(arguments.begin(), {"translate", model});
    return fails_saying(pumice_command(arguments), saying);
  }
};

} // namespace

FIXTURE_TEST_CASE("translate --from and --to: M2M-100 begins texts with their languages") {
  const Translator plain("m2m100"), named("m2m100", {"__de__", "__en__"});
  const json expected = plain.tokens({"w300 w5 w6", "--forced-first", "301"});
  CHECK(expected[0] == english);
  struct Spelling {
    std::string from, to;
  };
  for (const Spelling& each :
       {Spelling{"de", "en"}, Spelling{"German", "english"}, Spelling{"deu_Latn", "en_XX"},
        Spelling{"__de__", "301"}, Spelling{"300", "English"}}) {
    CAPTURE(each.from);
    CHECK(named.tokens({"w5 w6", "--from", each.from, "--to", each.to}) == expected);
  }
  CHECK(named.tokens({"w5 w6", "--from", "en", "--to", "de"}) ==
        plain.tokens({"w301 w5 w6", "--forced-first", "300"}));
  CHECK(named.tokens({"w5 w6", "--to", "en"}) == plain.tokens({"w5 w6", "--forced-first", "301"}));
  CHECK(named.fails({"w5"}, {"translates into 2 languages", "--to", "such as de"}) == "");
  CHECK(named.fails({"w5", "--to", "fr"}, {"--to", "'fr'", "it has de, en"}) == "");
  CHECK(named.fails({"w5", "--to", "en", "--from", "Klingon"}, {"--from", "'Klingon'", "it has de, en"}) ==
        "");
  CHECK(plain.fails({"w5", "--to", "en"}, {"--to", "'en'", "no tokens for languages"}) == "");
  CHECK(plain.fails({"w5", "--from", "en"}, {"--from en", "leave --from out"}) == "");
}

FIXTURE_TEST_CASE("translate --to: mBART's decoder begins with the language") {
  const Translator plain("mbart"), named("mbart", {"de_DE", "en_XX"});
  named.start(german);
  plain.start(english);
  const json expected = plain.tokens({"w300 w5 w6"});
  CHECK(named.tokens({"w5 w6", "--from", "de_DE", "--to", "English"}) == expected);
  plain.start(german);
  CHECK(named.tokens({"w5 w6", "--from", "de"}) == plain.tokens({"w300 w5 w6"}));
}

FIXTURE_TEST_CASE("translate --to: Marian's texts begin with the language that they are translated into") {
  const Translator plain("marian"), named("marian", {">>deu<<", ">>eng<<"});
  CHECK(named.tokens({"w5 w6", "--to", "English"}) == plain.tokens({"w301 w5 w6"}));
  CHECK(named.tokens({"w5 w6", "--to", "deu"}) == plain.tokens({"w300 w5 w6"}));
  CHECK(named.tokens({"w5 w6"}) == plain.tokens({"w5 w6"}));
  CHECK(named.fails({"w5", "--from", "de"}, {"--from de", "does not tell languages of its texts apart"}) ==
        "");
}
