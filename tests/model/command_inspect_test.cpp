#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "kernel/probe/open_device.h"
#include "support/command.h"
#include "support/fixtures.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

json inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  arguments.insert(arguments.end(), {"--json", "--no-cache"});
  const CommandResult result = pumice_command(arguments);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

} // namespace

TEST_CASE("inspect counts GPT-3 from its config alone") {
  const TemporaryFolder temporary;
  const std::string config =
      temporary
          .write("config.json",
                 std::string_view(R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 2048,
                                   "n_embd": 12288, "n_layer": 96, "n_head": 96})"))
          .string();
  const json object = inspect({config});
  const double total = object["parameters"]["total"];
  CHECK(total > 174.6e9);
  CHECK(total < 175.2e9);
  double percent = 0;
  for (const json& each : object["parameters"]["components"]) percent += each["percent"].get<double>();
  CHECK(percent == doctest::Approx(100));
  CHECK(object["memory"]["exact"] == false);

  const CommandResult text = pumice_command({"inspect", config, "--vulkan-loader", "/nonexistent"});
  CHECK(text.status == 0);
  CHECK(text.out.find("feed-forward") != std::string::npos);
  CHECK(fails_saying(pumice_command({"inspect", config, "--graph"}), {config, "model.safetensors"}) == "");
}

TEST_CASE("inspect says how much memory will be allocated") {
  struct Case {
    std::filesystem::path model;
    const char* weights;
  };
  for (const Case& c : {Case{fixtures().story(), nullptr},
                        {fixtures().gguf("random-Q4_K_M"), nullptr},
                        {fixtures().model("llama-gqa"), nullptr},
                        {fixtures().model("llama-gqa"), "q4_0"}}) {
    const std::string path = c.model.string();
    CAPTURE(path);
    std::vector<std::string> arguments = {path, "--context", "200"};
    LoadOptions load;
    if (c.weights) {
      arguments.insert(arguments.end(), {"--weights", c.weights});
      load.weights = find_type_named(c.weights)->type;
    }
    const json memory = inspect(arguments)["memory"];
    CHECK(memory["exact"] == true);

    const std::shared_ptr<Instance> instance = require(Instance::create({}));
    const DeviceContext device = require(open_device(instance, require(instance->choose()), {}));
    const std::shared_ptr<const Model> model = require(Model::load(path, device, {}, load));
    CHECK(memory["weights_bytes"].get<double>() ==
          doctest::Approx(double(model->weight_bytes())).epsilon(0.02));
    SessionOptions options;
    options.size.context = 200;
    const std::unique_ptr<Session> session = require(Session::create(model, options));
    const uint64_t allocated = model->weight_bytes() + session->runner().device_bytes();
    CHECK(memory["total_bytes"].get<double>() == doctest::Approx(double(allocated)).epsilon(0.02));
    CHECK(double(device.device->allocated_bytes()) == doctest::Approx(double(allocated)).epsilon(0.02));
  }
}

TEST_CASE("inspect prints graph and plan, and does without a device where it can") {
  const std::string path = fixtures().model("llama-mha").string();
  CHECK(pumice_command({"inspect", path, "--graph"}).out.find("logits") != std::string::npos);
  CHECK(pumice_command({"inspect", path, "--plan", "--no-cache"}).out.find("dispatches") !=
        std::string::npos);
  const CommandResult without = pumice_command({"inspect", path, "--vulkan-loader", "/nonexistent"});
  CHECK(without.status == 0);
  CHECK(without.out.find("memory: not known without a device") != std::string::npos);
  CHECK(without.out.find("embedding") != std::string::npos);
  CHECK(fails_saying(pumice_command({"inspect", path, "--plan", "--vulkan-loader", "/nonexistent"}),
                     {"/nonexistent"}) == "");
}

TEST_CASE("inspect says what a file is and which commands can use it") {
  const json story = inspect({fixtures().story().string()});
  CHECK(story["format"] == "GGUF");
  CHECK(story["quantisation"].get<std::string>().starts_with("F"));
  CHECK(story["quantisation"].get<std::string>().find("bits per weight") != std::string::npos);
  CHECK(story["tokenizer"]["kind"] == "SentencePiece BPE");
  CHECK(story["tokenizer"]["tokens"] == 512);
  CHECK(story["chat_template"] == false);
  const auto can = [](const json& object, const char* command) {
    const json& commands = object["commands"];
    return std::find(commands.begin(), commands.end(), command) != commands.end();
  };
  for (const char* command : {"run", "generate", "perplexity", "tokenize", "eval", "bench"})
    CHECK(can(story, command));
  for (const char* command : {"translate", "embed", "transcribe", "convert"}) CHECK(!can(story, command));

  const json bare = inspect({fixtures().model("llama-mha").string()}); // without a tokenizer
  CHECK(bare["format"] == "Hugging Face");
  CHECK(bare["tokenizer"].is_null());
  CHECK(!can(bare, "run"));
  CHECK(can(bare, "generate"));
  CHECK(can(bare, "convert"));
  CHECK(can(inspect({fixtures().model("whisper").string()}), "transcribe"));
  CHECK(can(inspect({fixtures().model("vit").string()}), "classify"));
}

TEST_CASE("inspect shows the licence, the source and the chat template that the files name") {
  const TemporaryFolder folder;
  const std::filesystem::path from = fixtures().model("llama-mha");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(from / name, folder.path() / name);
  const std::string path = folder.path().string();
  CHECK(inspect({path})["metadata"].empty());
  CHECK(inspect({path})["chat_template"] == false);
  folder.write("README.md", std::string_view("---\nlicense: apache-2.0\nbase_model: \"someone/model\"\n"
                                             "tags:\n- text\n---\n# A model\nlicense: none\n"));
  folder.write("tokenizer_config.json", std::string_view(R"({"chat_template": "{{ messages }}"})"));
  const json object = inspect({path});
  CHECK(object["metadata"]["licence"] == "apache-2.0");
  CHECK(object["metadata"]["source"] == "someone/model");
  CHECK(object["chat_template"] == true);
  const std::string text = pumice_command({"inspect", path, "--no-cache"}).out;
  CHECK(text.find("licence           apache-2.0\n") != std::string::npos);
  CHECK(text.find("chat template     yes\n") != std::string::npos);
  CHECK(text.find("commands          generate, eval,") != std::string::npos);
}
