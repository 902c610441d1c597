// Answers of commands that have a form, drawn at temperature 1 from many seeds.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

using nlohmann::json;

namespace {

std::vector<json> generate(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"generate", fixtures().story().string()});
  arguments.insert(arguments.end(), {"--temp", "1", "--seed", "3", "-n", "120", "--json-lines"});
  const CommandResult result = pumice_command(arguments, input);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::vector<json> texts;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) texts.push_back(json::parse(line));
  return texts;
}

const char* const person = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
  "age": {"type": "integer", "minimum": 0, "maximum": 99}, "way": {"enum": ["north", "south"]}},
  "required": ["name", "way"], "additionalProperties": false})";

bool is_person(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_object() && value.contains("name") && value["name"].is_string() && value.contains("way") &&
         (value["way"] == "north" || value["way"] == "south") &&
         (!value.contains("age") || (value["age"].is_number_integer() && value["age"] < 100)) &&
         value.size() == (value.contains("age") ? 3U : 2U);
}

} // namespace

TEST_CASE("every answer is one of the choices") {
  std::set<std::string> seen;
  for (const json& text :
       generate({"--prompt", "She went", "--samples", "40", "--choices", "north,south", "--choices", "up"})) {
    seen.insert(text["text"].get<std::string>());
    CHECK(text["finish_reason"] == "stop token");
  }
  for (const std::string& text : seen) CHECK((text == "north" || text == "south" || text == "up"));
  CHECK(seen.size() > 1);
}

TEST_CASE("every answer matches the schema, the expression, the grammar") {
  for (const json& text : generate({"--prompt", "A girl", "--samples", "40", "--json-schema", person})) {
    CAPTURE(text.dump());
    CHECK(text["finish_reason"] == "stop token");
    CHECK(is_person(text["text"]));
  }
  for (const json& text :
       generate({"--prompt", "A girl", "--samples", "20", "--regex", "[A-Z][a-z]{2,5} \\d{2}"})) {
    const auto answer = text["text"].get<std::string>();
    CAPTURE(answer);
    CHECK((answer.size() >= 6 && answer.size() <= 9 && answer[answer.size() - 3] == ' '));
  }
  const TemporaryFolder folder;
  const std::string grammar = (folder.path() / "list.gbnf").string();
  std::ofstream(grammar) << "root ::= (\"- \" [a-z]{1,9} \"\\n\"){2,3}\n";
  const std::string lark = (folder.path() / "list.lark").string();
  std::ofstream(lark) << "start: (\"- \" /[a-z]{1,9}/ NL)~2..3\n%import common.LF -> NL\n";
  for (const std::string& source : {grammar, lark, std::string("start: (\"- \" /[a-z]{1,9}/ \"\\n\")~2")})
    for (const json& text : generate({"--prompt", "A list", "--samples", "20", "--grammar", source})) {
      const auto answer = text["text"].get<std::string>();
      CAPTURE(answer);
      CHECK((answer.starts_with("- ") && answer.ends_with("\n")));
    }
}

TEST_CASE("requests have forms of their own, in one batch") {
  const std::string requests =
      json({{"prompt", "One"}, {"choices", {"north", "south"}}, {"samples", 8}}).dump() + "\n" +
      R"({"prompt": "Two", "samples": 8, "json_schema": )" +
      "{\"type\": \"object\", \"properties\": {\"z\": {\"type\": \"boolean\"}, \"a\": {\"type\": \"null\"}}, "
      "\"required\": [\"z\", \"a\"], \"additionalProperties\": false}}\n" +
      json({{"prompt", "Three"}, {"count", 5}}).dump() + "\n";
  const std::vector<json> texts = generate({"--requests", "-"}, requests);
  REQUIRE(texts.size() == 17);
  for (size_t i = 0; i < 16; ++i) {
    const auto answer = texts[i]["text"].get<std::string>();
    CAPTURE(answer);
    if (i < 8) {
      CHECK((answer == "north" || answer == "south"));
    } else {
      CHECK(answer.starts_with("{\"z\":"));
      CHECK(json::parse(answer).size() == 2);
    }
  }
  CHECK(texts[16]["ids"].size() == 5);
  // Those without a form are what they are without the others.
  const std::vector<json> alone =
      generate({"--requests", "-"}, json({{"prompt", "Three"}, {"count", 5}}).dump() + "\n");
  CHECK(alone[0]["ids"] == texts[16]["ids"]);
}

TEST_CASE("run answers in a form, from a schema in a file too") {
  const TemporaryFolder folder;
  const std::string schema = (folder.path() / "person.json").string();
  std::ofstream(schema) << person;
  for (const char* seed : {"1", "2", "3", "4"}) {
    const CommandResult result =
        pumice_command({"run", fixtures().story().string(), "A girl", "--no-echo", "--temp", "1", "--seed",
                        seed, "--json-schema", schema, "--json"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const json answer = json::parse(result.out);
    CHECK(is_person(answer["text"]));
    CHECK(answer["finish_reason"] == "stop token");
  }
}

TEST_CASE("what is wrong with a form is said before the model is loaded") {
  const auto error_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", fixtures().story().string(), "A girl"});
    const CommandResult result = pumice_command(arguments);
    CHECK(result.status != 0);
    return result.err;
  };
  CHECK(error_of({"--choices", "a", "--regex", "b"}).find("--choices and --regex do not go together") !=
        std::string::npos);
  CHECK(error_of({"--regex", "(a"}).find("the regular expression, at byte 2: a ( has no )") !=
        std::string::npos);
  CHECK(error_of({"--json-schema", R"({"not": {}})"}).find("the keyword not is not supported") !=
        std::string::npos);
  CHECK(error_of({"--choices", "a", "--ignore-eos"}).find("--ignore-eos cannot be used with a form") !=
        std::string::npos);
  CHECK(error_of({"--grammar", "start: %json {}"}).find("%json within a rule is not supported") !=
        std::string::npos);
  CHECK(error_of({"--grammar", "/no/such/file"}).find("/no/such/file") != std::string::npos);
}
