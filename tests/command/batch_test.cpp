// `generate` with several prompts, and `generate` and `run` with a session file.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/paths.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::string model = stories_model().string();

CommandResult generate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"generate", model, "--no-cache"});
  return pumice_command(arguments);
}

json generated(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const CommandResult result = generate(std::move(arguments));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

std::string ids_of(const json& ids) {
  std::string text;
  for (const json& id : ids) text += (text.empty() ? "" : ",") + std::to_string(id.get<uint32_t>());
  return text;
}

} // namespace

TEST_CASE("several prompts are continued as each of them is alone") {
  const std::vector<std::string> prompts = {"1,403,407", "1,500", "1,7,8,9,10,11,12,13"};
  std::vector<json> alone;
  for (const std::string& prompt : prompts) {
    alone.push_back(generated({"--ids", prompt, "-n", "9", "--temp", "1", "--seed", "5"}));
    CHECK(!alone.back().contains("sequences"));
  }
  for (const char* slots : {"16", "2"}) {
    const json batch = generated({"--ids", prompts[0], "--ids", prompts[1], "--ids", prompts[2], "-n", "9",
                                  "--temp", "1", "--seed", "5", "--sequences", slots});
    REQUIRE(batch["sequences"].size() == 3);
    CHECK(batch.contains("device"));
    for (size_t i = 0; i < 3; ++i) {
      CHECK(batch["sequences"][i]["ids"] == alone[i]["ids"]);
      CHECK(batch["sequences"][i]["text"] == alone[i]["text"]);
    }
  }
  // The same from a file, with padding.
  std::vector<int64_t> ids(24, 0), mask(24, 0);
  const std::vector<std::vector<int64_t>> rows = {{1, 403, 407}, {1, 500}, {1, 7, 8, 9, 10, 11, 12, 13}};
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const size_t at = row * 8 + (row == 0 ? 8 - rows[row].size() : 0) + i; // left and right
      ids[at] = rows[row][i];
      mask[at] = 1;
    }
  }
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "in.safetensors").string();
  for (const char* name : {"prompt_mask", "attention_mask"}) {
    const SafetensorsFile::Entry entries[] = {{"prompt_ids", "I64", {3, 8}, std::as_bytes(std::span(ids))},
                                              {name, "I64", {3, 8}, std::as_bytes(std::span(mask))}};
    REQUIRE(write_safetensors(file, entries).ok());
    const json batch = generated({"--inputs", file, "-n", "9", "--temp", "1", "--seed", "5"});
    REQUIRE(batch["sequences"].size() == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(batch["sequences"][i]["ids"] == alone[i]["ids"]);
  }
  const SafetensorsFile::Entry wrong[] = {{"prompt_ids", "I64", {3, 8}, std::as_bytes(std::span(ids))},
                                          {"prompt_mask", "I64", {4, 6}, std::as_bytes(std::span(mask))}};
  REQUIRE(write_safetensors(file, wrong).ok());
  CHECK(fails_saying(generate({"--inputs", file}), {file, "'prompt_mask'", "[3, 8]", "[4, 6]"}) == "");
  CHECK(fails_saying(generate({"--ids", "1", "--ids", "2048"}), {"--ids 2", "0 to 2047", "2048"}) == "");
}

TEST_CASE("a text ends before a token of --stop-id") {
  const json whole = generated({"--ids", "1,403", "-n", "9"});
  const json stopped =
      generated({"--ids", "1,403", "-n", "9", "--stop-id", std::to_string(whole["ids"][6].get<int>())});
  const size_t count = stopped["ids"].size();
  CHECK(count <= 6);
  for (size_t i = 0; i < count; ++i) CHECK(stopped["ids"][i] == whole["ids"][i]);
}

TEST_CASE("--logprobs gives the log-probabilities of the chosen and the most probable tokens") {
  const json plain = generated({"--ids", "1,403", "-n", "4"});
  CHECK(!plain.contains("logprobs"));
  const json object = generated({"--ids", "1,403", "-n", "4", "--logprobs", "3"});
  CHECK(object["ids"] == plain["ids"]);
  REQUIRE(object["logprobs"].size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const json& each = object["logprobs"][i];
    CHECK(each["id"] == object["ids"][i]);
    REQUIRE(each["top"].size() == 3);
    CHECK(each["top"][0]["id"] == each["id"]); // greedy
    CHECK(each["top"][0]["logprob"] == each["logprob"]);
    CHECK(each["logprob"].get<double>() < 0);
    CHECK(each["logprob"].get<double>() > each["top"][1]["logprob"].get<double>());
    CHECK(each["top"][1]["logprob"].get<double>() >= each["top"][2]["logprob"].get<double>());
  }
  const json batch = generated({"--ids", "1,500", "--ids", "1,403", "-n", "4", "--logprobs", "3"});
  CHECK(batch["sequences"][1]["logprobs"] == object["logprobs"]);
  CHECK(fails_saying(generate({"--ids", "1", "--logprobs", "65"}), {"--logprobs", "65"}) == "");
}

TEST_CASE("a session file carries a conversation from one command to the next") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "session").string();
  const json whole = generated({"--ids", "1,403,407", "-n", "20", "--temp", "1", "--seed", "9"});
  const json first =
      generated({"--ids", "1,403,407", "-n", "8", "--temp", "1", "--seed", "9", "--session", file});
  const json second = generated({"-n", "7", "--temp", "1", "--seed", "9", "--session", file});
  // With the whole text as the prompt: the file's beginning of it is not read again.
  const json third = generated({"--ids", "1,403,407," + ids_of(first["ids"]) + "," + ids_of(second["ids"]),
                                "-n", "5", "--temp", "1", "--seed", "9", "--session", file});
  json joined = first["ids"];
  for (const json& part : {second["ids"], third["ids"]})
    joined.insert(joined.end(), part.begin(), part.end());
  CHECK(joined == whole["ids"]);

  CHECK(fails_saying(generate({"--session", file, "--kv", "f16"}), {file, "'cache type'", "f16", "f32"}) ==
        "");
  CHECK(fails_saying(generate({"--session", file, "--ids", "1", "--ids", "2"}),
                     {"--session", "one conversation", "2 texts"}) == "");
  CHECK(fails_saying(generate({"--session", (folder.path() / "none").string()}), {"there is no prompt"}) ==
        "");
  std::filesystem::resize_file(file, 500);
  CHECK(fails_saying(generate({"--session", file, "--ids", "1"}), {file, "'bytes'", "500"}) == "");
}

TEST_CASE("run continues a story from a session file") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "session").string();
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", model, "--no-cache", "--temp", "0"});
    const CommandResult result = pumice_command(arguments);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result;
  };
  const std::string prompt = "Once upon a time";
  const std::string whole = run({prompt, "-n", "24"}).out;
  std::string first = run({prompt, "-n", "10", "--session", file}).out;
  first.pop_back(); // the line's end
  const CommandResult rest = run({"-n", "14", "--session", file});
  CHECK(first + rest.out == whole);
  CHECK(rest.err.find("of them reused") != std::string::npos);
}
