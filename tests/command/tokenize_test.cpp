#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/fixtures.h"

using nlohmann::json;

namespace {

// The loader is hidden, since tokenizers need no device.
json tokenize(std::vector<std::string> arguments, const std::string& input) {
  arguments.insert(arguments.begin(), "tokenize");
  arguments.push_back("--json");
  const CommandResult result =
      pumice_command(arguments, &input, {"LD_LIBRARY_PATH=/nonexistent", "VK_ICD_FILENAMES="});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

} // namespace

TEST_CASE("tokenize gives the fixtures' ids and text") {
  const std::filesystem::path tokenizer = fixtures().tokenizer("llama2");
  const json cases = json::parse(std::ifstream(tokenizer / "cases.json"));
  for (size_t i = 0; i < cases.size(); i += 4) {
    const std::string text = cases[i]["text"];
    CAPTURE(text);
    const json result = tokenize({tokenizer.string()}, text);
    CHECK(result["ids"] == cases[i]["ids"]);
    CHECK(result["decoded"] == cases[i]["decoded"]);
    CHECK(tokenize({(tokenizer / "tokenizer.json").string(), "--no-special"}, text)["ids"] ==
          cases[i]["ids_without_special"]);
  }
}

TEST_CASE("tokenize reads a GGUF file's vocabulary, and decodes ids") {
  const std::string model = fixtures().story().string();
  const std::string text = "Once upon a time,\nthere was a cat.\n";
  const json result = tokenize({model}, text);
  CHECK(result["decoded"] == text);
  const json plain = tokenize({model, "--no-special"}, text)["ids"];
  std::string ids;
  for (const json& id : plain) {
    if (!ids.empty()) ids += ',';
    ids += id.dump();
  }
  CHECK(pumice_command({"tokenize", model, "--ids", ids}).out == text + "\n");
  const std::string alone = pumice_command({"tokenize", model, "--no-special", text}).out;
  CHECK(alone == ids + "\n");
  CHECK(pumice_command({"tokenize", model, "--no-special", text, "x"}).out.find(alone) == 0);
  const CommandResult bad = pumice_command({"tokenize", model, "--no-special", text, "a\xff", text});
  CHECK(bad.status == 1);
  CHECK(bad.out == alone + "\n" + alone);
  CHECK(bad.err.find("TEXT 2") != std::string::npos);
  for (const std::string brackets : {"[a] b, [c]", "[]", "[", "[[x]]"}) { // which are no list
    CAPTURE(brackets);
    CHECK(pumice_command({"tokenize", model, "--no-special", brackets}).out ==
          pumice_command({"tokenize", model, "--no-special"}, brackets).out);
  }
  CHECK(fails_saying(pumice_command({"tokenize", model, text, "--ids", "1"}), {"TEXT", "--ids"}) == "");
  CHECK(fails_saying(pumice_command({"tokenize", model, "--ids", "[1,x]"}), {"--ids: '[1,x]'"}) == "");
  CHECK(fails_saying(pumice_command({"tokenize", model, "--ids", "1,x"}), {"--ids", "1,x"}) == "");
  CHECK(fails_saying(pumice_command({"tokenize", model, "--ids", "99999"}), {"--ids", "99999", "0 to 511"}) ==
        "");
  CHECK(fails_saying(pumice_command({"tokenize", model}, std::string("ab\xff")),
                     {"standard input", "0xFF", "2"}) == "");
  CHECK(fails_saying(pumice_command({"tokenize", "/nonexistent/tokenizer.json"}),
                     {"/nonexistent/tokenizer.json"}) == "");
}
