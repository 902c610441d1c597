#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "kernel/probe/open_device.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/require.h"
#include "support/skip.h"

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

// Of a folder, what is there is told before the error; a config.json that is asked about by itself is no
// error.
TEST_CASE("inspect fails for a folder whose weights are missing, and says what is") {
  const TemporaryFolder folder;
  const std::string config =
      folder
          .write("config.json",
                 std::string_view(R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 32,
                                   "n_embd": 32, "n_layer": 1, "n_head": 2})"))
          .string();
  const std::string path = folder.path().string();
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--json"}}) {
    std::vector<std::string> arguments = {"inspect", path, "--no-cache"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = pumice_command(arguments);
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(result.out.find("gpt2") != std::string::npos);
    CHECK(result.err.find(path) != std::string::npos);
    CHECK(result.err.find("model.safetensors, model.safetensors.index.json, pytorch_model.bin") !=
          std::string::npos);
  }
  CHECK(pumice_command({"inspect", config, "--no-cache"}).status == 0);
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

TEST_CASE("what inspect says fits is what --fit chooses, and it runs") {
  const std::string model = (pretrained_folder() / "stories-2m.gguf").string();
  const json all = inspect({model})["memory"];
  CHECK(all["fits"] == true);
  CHECK(all["available_bytes"] > all["total_bytes"]);
  CHECK(all["longest_context"]["f16"] == 512);
  if (inspect({model, "--memory-limit", all["total_bytes"].dump()})["memory"]["fits"] == false)
    return skip("loading this small model takes more memory than its sessions");
  const uint64_t weights = all["weights_bytes"], session = all["total_bytes"].get<uint64_t>() - weights;
  const auto run = [&](const std::string& limit, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", model, "Once", "-n", "4", "--no-cache", "--no-tune", "--memory-limit", limit});
    return pumice_command(more);
  };
  for (const double part : {0.9, 0.5, 0.3}) {
    const std::string limit = std::to_string(weights + static_cast<uint64_t>(part * double(session)));
    CAPTURE(limit);
    const json memory = inspect({model, "--memory-limit", limit})["memory"];
    CHECK(memory["available_bytes"].dump() == limit);
    CHECK(memory["fits"] == false);
    const uint32_t f16 = memory["longest_context"]["f16"], q8_0 = memory["longest_context"]["q8_0"];
    CHECK(f16 < 512);
    CHECK(fails_saying(run(limit, {}), {"--fit", "--context"}) == "");

    const CommandResult fit = run(limit, {"--fit"});
    CAPTURE(fit.err);
    CHECK(fit.status == 0);
    const json& fitted = memory["fit"];
    CHECK(fitted["context"] >= std::max(f16, q8_0));
    CHECK(fit.err.find("a context of " + fitted["context"].dump() + " tokens with keys and values in " +
                       fitted["kv"].get<std::string>() + ", read in chunks of " + fitted["chunk"].dump()) !=
          std::string::npos);
    if (part == 0.9) { // a shorter chunk is enough
      CHECK(fitted == json{{"context", 512}, {"kv", "f16"}, {"chunk", fitted["chunk"]}});
      CHECK(fitted["chunk"] < 128);
    }
    const CommandResult widest = run(limit, {"--fit", "--chunk", "128"});
    CHECK(widest.status == 0);
    CHECK(widest.err.find("a context of " + std::to_string(std::max(f16, q8_0)) + " tokens") !=
          std::string::npos);
    const CommandResult chosen = run(limit, {"--fit", "--kv", "f16", "--chunk", "128"});
    CHECK(chosen.status == 0);
    CHECK(chosen.err.find("a context of " + std::to_string(f16) + " tokens") != std::string::npos);
    CHECK(fails_saying(
              run(limit, {"--fit", "--kv", "f16", "--chunk", "128", "--context", std::to_string(f16 + 1)}),
              {"there is no room", model}) == "");
  }
  CHECK(fails_saying(run("2M", {"--fit"}), {"weights take", "--weights", model}) == "");
  CHECK(run("1G", {"--fit"}).err.find("--fit") == std::string::npos); // nothing is to be said
}

TEST_CASE("inspect says what experts take of the host") {
  const std::string model = fixtures().model("mixtral-moe").string();
  const std::vector<std::string> limited = {model, "--memory-limit", "1G"}; // others take what is free
  const auto memory = [&](const char* place) {
    std::vector<std::string> arguments = limited;
    arguments.insert(arguments.end(), {"--experts", place});
    return inspect(arguments)["memory"];
  };
  const json here = memory("device"), there = memory("host");
  CHECK(here["host_bytes"] == 0);
  CHECK(there["host_bytes"] > 0);
  CHECK(there["weights_bytes"] < here["weights_bytes"]);
  CHECK(inspect(limited)["memory"] == here); // there is room
  CHECK(pumice_command({"inspect", model, "--experts", "host"}).out.find("weights on host") !=
        std::string::npos);
}

TEST_CASE("inspect says what layers take of the host with -ngl, of an encoder with a decoder too") {
  for (const char* name : {"llama-gqa", "t5"}) {
    const std::string model = fixtures().model(name).string();
    const json all = inspect({model, "--memory-limit", "1G"})["memory"],
               some = inspect({model, "--memory-limit", "1G", "-ngl", "1"})["memory"],
               none = inspect({model, "--memory-limit", "1G", "--gpu-layers", "0"})["memory"];
    CHECK(all["host_bytes"] == 0);
    CHECK(some["host_bytes"] > 0);
    CHECK(none["host_bytes"] > some["host_bytes"]);
    CHECK(some["weights_bytes"] < all["weights_bytes"]);
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

TEST_CASE("inspect forecasts a step on a chip that is not here") {
  const std::string path = fixtures().model("llama-gqa").string();
  const std::vector<std::string> common = {"inspect", path, "--plan", "--vulkan-loader", "/nonexistent"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return pumice_command(more);
  };
  for (const char* chip : {"h100", "4090", "7900xtx", "b580", "m2", "adreno740"}) {
    const CommandResult result = with({"--chip", chip, "--json"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const json found = json::parse(result.out)["forecast"];
    CHECK(found["chip"] == chip);
    CHECK(found["tokens_per_second"] > 0);
    CHECK(found["tokens_per_second"] < found["memory_tokens_per_second"]);
    double seconds = 0;
    for (const json& launch : found["launches"]) seconds += launch["seconds"].get<double>();
    CHECK(seconds == doctest::Approx(found["seconds"].get<double>()));
  }
  const std::string text = with({"--chip", "H100", "--depth", "9"}).out;
  CHECK(text.find("NVIDIA H100") != std::string::npos);
  CHECK(text.find("after 9 others") != std::string::npos);
  CHECK(text.find("tokens/s") != std::string::npos);

  const json prompt = json::parse(with({"--chip", "4090", "--prompt", "24", "--json"}).out)["forecast"];
  CHECK(prompt["tokens"] == 24);
  CHECK(prompt["peak_share"] > 0);
  CHECK(prompt["peak_share"] < 1);
  CHECK(prompt["tokens_per_second"].get<double>() == doctest::Approx(24 / prompt["seconds"].get<double>()));
  double flops = 0;
  for (const json& launch : prompt["launches"]) flops += launch["flops"].get<double>();
  CHECK(flops == doctest::Approx(prompt["flops"].get<double>()));
  const std::string prompt_text = with({"--chip", "4090", "--prompt", "24"}).out;
  CHECK(prompt_text.find("a prompt of 24 tokens") != std::string::npos);
  CHECK(prompt_text.find("of the peak, limit: ") != std::string::npos);

  CHECK(fails_saying(with({"--chip", "h100", "--prompt", "100000000"}), {"100000000 tokens", "context"}) ==
        "");
  CHECK(fails_saying(with({"--chip", "h100", "--prompt", "0"}), {"--prompt"}) == "");
  const json curve = json::parse(with({"--chip", "4090", "--batch", "1-3,8", "--json"}).out)["curve"];
  REQUIRE(curve.size() == 4);
  CHECK(curve[3]["tokens"] == 8);
  CHECK(curve[3]["tokens_per_second"] > curve[0]["tokens_per_second"]);
  CHECK(with({"--chip", "4090", "--batch", "1,8"}).out.find("texts that go on together") !=
        std::string::npos);
  CHECK(fails_saying(with({"--chip", "h100", "--batch", "2", "--prompt", "5"}), {"--batch", "--prompt"}) ==
        "");
  CHECK(fails_saying(with({"--chip", "h10"}), {"--chip", "h100", "b580"}) == "");
  CHECK(fails_saying(with({"--chip", "this"}), {"/nonexistent"}) == "");
  CHECK(fails_saying(with({"--chip", "h100", "--depth", "100000000"}), {"context", "100000000"}) == "");
  CHECK(fails_saying(with({"--chip", "h100", "--depth", "-1"}), {"--depth"}) == "");
  CHECK(fails_saying(with({"--chip", "h100", "--measure"}), {"--measure"}) == "");
  CHECK(fails_saying(pumice_command({"inspect", path, "--chip", "h100"}), {"--plan"}) == "");
  CHECK(
      fails_saying(pumice_command({"inspect", fixtures().model("vit").string(), "--plan", "--chip", "h100"}),
                   {"decoder"}) == "");
  CHECK(fails_saying(pumice_command({"inspect", fixtures().model("vit").string(), "--plan", "--chip", "this",
                                     "--measure", "--no-cache"}),
                     {"decoder"}) == "");
  const CommandResult here = pumice_command({"inspect", path, "--plan", "--chip", "this", "--no-cache"});
  CHECK(here.status == 0);
  CHECK(here.out.find("tokens/s") != std::string::npos);
}

// How near they are depends on what else the machine does.
TEST_CASE("inspect runs the step that it forecasts for the device that is here") {
  const std::string path = fixtures().model("llama-gqa").string();
  for (const char* tokens : {"1", "24"}) {
    CAPTURE(tokens);
    const json found =
        inspect({path, "--plan", "--chip", "this", "--measure", "--prompt", tokens})["forecast"];
    const double median = found["measured_seconds"]["median"], least = found["measured_seconds"]["least"];
    CHECK(least > 0);
    CHECK(median >= least);
    CHECK(median < 10);
    CHECK(found["seconds"] > 0);
  }
  const CommandResult text =
      pumice_command({"inspect", path, "--plan", "--chip", "this", "--measure", "--no-cache"});
  CHECK(text.status == 0);
  CHECK(text.out.find("measured here: ") != std::string::npos);
  CHECK(fails_saying(pumice_command({"inspect", path, "--plan", "--chip", "h100", "--measure"}),
                     {"--measure", "h100", "--chip this"}) == "");
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

// As a layer that predicts further tokens is: with a number behind the last layer's.
TEST_CASE("inspect names the tensors that a model leaves out") {
  const TemporaryFolder folder;
  const std::filesystem::path from = fixtures().model("glm4");
  std::filesystem::copy_file(from / "model.safetensors", folder.path() / "model.safetensors");
  json config = json::parse(std::ifstream(from / "config.json"));
  config["num_hidden_layers"] = 1;
  folder.write("config.json", std::string_view(config.dump()));
  const json left_out = inspect({folder.path().string()})["tensors_left_out"];
  CHECK(left_out.size() == 13);
  for (const json& name : left_out) CHECK(name.get<std::string>().starts_with("model.layers.1."));
  const std::string text = pumice_command({"inspect", folder.path().string(), "--no-cache"}).out;
  CHECK(text.find("tensors left out: 13\n  model.layers.1.") != std::string::npos);
  for (const char* name : {"glm4", "gpt2", "mixtral-moe", "whisper"}) {
    CHECK(inspect({fixtures().model(name).string()})["tensors_left_out"].empty());
  }
}
