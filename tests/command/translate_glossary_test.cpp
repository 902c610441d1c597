// `pumice translate --glossary`: terms that translations must contain.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

struct Words {
  TemporaryFolder folder;
  std::string model = folder.path().string();

  Words() { write_word_folder(folder, "marian"); }

  std::string glossary(const std::string& text) const {
    folder.write("glossary.tsv", text);
    return (folder.path() / "glossary.tsv").string();
  }
  CommandResult translate(std::vector<std::string> arguments, const std::string* input = nullptr) const {
    arguments.insert(arguments.begin(), {"translate", model, "-n", "20"});
    CommandResult result = pumice_command(arguments, input);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return result;
  }
  std::string fails(const std::string& text, const std::vector<std::string>& saying,
                    std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"translate", model, "w5", "--glossary", glossary(text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return fails_saying(pumice_command(arguments), saying);
  }
};

// Whether words of a line are those of a phrase, one after the other.
bool contains(const std::string& line, const std::string& phrase) {
  return (" " + line + " ").find(" " + phrase + " ") != std::string::npos;
}

} // namespace

FIXTURE_TEST_CASE("translate --glossary: translations contain the terms of their texts, and no others") {
  const Words words;
  const std::string terms = words.glossary("\xef\xbb\xbfw40\tw201\r\n\r\nw41 w42\tw202 w203\r\nw4\tw204\r\n");
  const std::string input = "w5 w40 w6\nw5 w41 w42, w40\nw5 w41 w6\nw40 w40\n";
  for (const char* beams : {"2", "4", "8"}) {
    CAPTURE(beams);
    const std::vector<std::string> lines =
        lines_of(words.translate({"--glossary", terms, "--beams", beams}, &input).out);
    REQUIRE(lines.size() == 4);
    CHECK(contains(lines[0], "w201"));
    CHECK(contains(lines[1], "w201"));
    CHECK(contains(lines[1], "w202 w203"));
    CHECK(!contains(lines[2], "w202 w203"));
    CHECK(contains(lines[3], "w201"));
    for (const std::string& line : lines) CHECK(!contains(line, "w204")); // w4 is a part of words only
    // The same alone, and what no term stands in is translated as without a glossary.
    for (size_t i = 0; i < 4; ++i) {
      const std::string text = lines_of(input)[i];
      CHECK(words.translate({text, "--glossary", terms, "--beams", beams}).out == lines[i] + "\n");
    }
    CHECK(words.translate({"w5 w41 w6", "--beams", beams}).out == lines[2] + "\n");
  }
  // Without --beams there are 8.
  CHECK(words.translate({"--glossary", terms}, &input).out ==
        words.translate({"--glossary", terms, "--beams", "8"}, &input).out);
  // The texts of --n-best have them, too.
  const json best = json::parse(
      words.translate({"w5 w40", "--glossary", terms, "--beams", "4", "--n-best", "4", "--json"}).out);
  for (const json& each : best["hypotheses"]) CHECK(contains(each["text"], "w201"));
}

TEST_CASE("translate --glossary says which line and field is wrong") {
  const Words words;
  const std::string file = "glossary.tsv: line ";
  CHECK(words.fails("w5\tw6\n\nw7 w8\n", {file + "3", "expected 2 fields", "found 1"}) == "");
  CHECK(words.fails("w5\tw6\tw7\n", {file + "1", "expected 2 fields", "found 3"}) == "");
  CHECK(words.fails(" \tw6\n", {file + "1", "field 1", "is empty"}) == "");
  CHECK(words.fails("w5\t \n", {file + "1", "field 2", "is empty"}) == "");
  CHECK(words.fails("w5\tw6\nw7\tw8\nw5\tw9\n", {file + "3", "field 1", "'w5'", "line 1"}) == "");
  CHECK(words.fails("w5\tHaus\n", {file + "1", "field 2", "cannot write 'Haus'"}) == "");
  CHECK(words.fails("\n\n", {"glossary.tsv", "found none"}) == "");
  CHECK(words.fails("w5\t\xff\n", {"glossary.tsv", "UTF-8"}) == "");
  CHECK(words.fails("w5\tw6\n", {"--glossary", "--beams 2"}, {"--beams", "1"}) == "");
  CHECK(words.fails("w5\tw6\n", {"--glossary", "--temp"}, {"--temp", "1"}) == "");
  const CommandResult missing =
      pumice_command({"translate", words.model, "w5", "--glossary", words.model + "/none.tsv"});
  CHECK(fails_saying(missing, {"none.tsv"}) == "");
}

TEST_CASE("translate --glossary: a text that has no room for its terms is named") {
  const Words words;
  const std::string terms = words.glossary("w40\tw201 w202 w203\n");
  const CommandResult cut = pumice_command({"translate", words.model, "w40", "--glossary", terms, "-n", "2"});
  CHECK(cut.status == 0);
  CHECK(cut.err.find("text 1: the translation lacks a term of the glossary") != std::string::npos);
  CHECK(cut.err.find("--count") != std::string::npos);
}
