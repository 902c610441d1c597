// What programs read of the command: one object, with its fields' version.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"

using nlohmann::json;

namespace {

json object_of(std::vector<std::string> arguments) {
  if (arguments[0] != "devices" && arguments[0] != "convert") arguments.push_back("--no-cache");
  arguments.push_back("--json");
  const CommandResult result = pumice_command(arguments, std::string("Once upon a time"));
  CAPTURE(arguments[0]);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json object = json::parse(result.out, nullptr, false);
  REQUIRE(object.is_object());
  return object;
}

} // namespace

TEST_CASE("every command that prints has JSON, with the version of its fields") {
  const TemporaryFolder folder;
  const std::string model = fixtures().story().string(), mha = fixtures().model("llama-mha").string();
  const std::string inputs = (fixtures().model("llama-mha") / "expected.safetensors").string(),
                    outputs = (folder.path() / "out.safetensors").string(),
                    gguf = (folder.path() / "out.gguf").string();
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Tom and the dog ran to the pond.\n";
  const std::string file = folder.write("text.txt", text).string();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", model, "-n", "4"},
                                             {"generate", model, "--ids", "1", "-n", "4"},
                                             {"eval", mha, "--inputs", inputs, "--outputs", outputs},
                                             {"inspect", model},
                                             {"devices"},
                                             {"doctor", "--quick", "--only", "memory"},
                                             {"tune", model, "--seconds", "0"},
                                             {"bench", model, "-p", "4", "-n", "0", "-r", "1", "-w", "0"},
                                             {"perplexity", model, file, "--context", "64"},
                                             {"convert", mha, gguf, "--no-vocabulary"}}) {
    CHECK(object_of(arguments)["schema"] == 1);
  }
  // tokenize has no device, and so no cache
  CHECK(json::parse(pumice_command({"tokenize", model, "--json"}, text).out)["schema"] == 1);
}

TEST_CASE("run --json says what was generated and why it ended") {
  const std::string model = fixtures().story().string();
  const json counted = object_of({"run", model, "-n", "6", "--temp", "0", "--seed", "3"});
  CHECK(counted["prompt"] == "Once upon a time");
  CHECK(counted["ids"].size() == 6);
  CHECK(counted["finish_reason"] == "count");
  CHECK(counted["seed"] == 3);
  CHECK(counted["reused_tokens"] == 0);
  CHECK(counted["device"] != "");
  const std::string plain =
      pumice_command({"run", model, "-n", "6", "--temp", "0"}, std::string("Once upon a time")).out;
  CHECK("Once upon a time" + counted["text"].get<std::string>() + "\n" == plain);
  CHECK(object_of({"run", model, "-n", "40", "--temp", "0", "--stop", "girl"})["finish_reason"] ==
        "stop string");
  CHECK(object_of({"run", model, "--context", "24", "--temp", "0"})["finish_reason"] == "context");
}

TEST_CASE("eval --json and convert --json name what they wrote") {
  const TemporaryFolder folder;
  const std::string mha = fixtures().model("llama-mha").string();
  const std::string inputs = (fixtures().model("llama-mha") / "expected.safetensors").string(),
                    outputs = (folder.path() / "out.safetensors").string(),
                    gguf = (folder.path() / "out.gguf").string();
  const json eval = object_of({"eval", mha, "--inputs", inputs, "--outputs", outputs});
  CHECK(eval["path"] == outputs);
  REQUIRE(eval["tensors"].size() == 1);
  CHECK(eval["tensors"][0]["name"] == "logits");
  CHECK(eval["tensors"][0]["shape"].size() == 3);
  const json converted = object_of({"convert", mha, gguf, "--no-vocabulary", "--type", "Q8_0"});
  CHECK(converted["path"] == gguf);
  CHECK(converted["type"] == "Q8_0");
  CHECK(converted["bytes"] == std::filesystem::file_size(gguf));
}
