// Adapters of the command: --lora, and the field of a request.
#include <doctest/doctest.h>

#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/server.h"
#include "support/files/fixtures.h"
#include "support/files/made_adapter.h"
#include "support/files/temporary_folder.h"
#include "support/skip.h"

using nlohmann::json;

namespace {

// Two adapters of the story, one in each form.
class Adapters {
public:
  Adapters() {
    const pumice::ModelFile file = require(pumice::ModelFile::open(fixtures().story()));
    write_gguf_adapter(make_adapter(file, {"attn_q", "attn_v"}, 4, 1), folder_.path() / "one.gguf",
                       [](const std::string& module) { return module; });
    MadeAdapter other = make_adapter(file, {"ffn_up", "attn_output"}, 8, 2);
    for (MadeAdapter::Pair& pair : other.pairs) {
      const bool up = pair.module.ends_with("ffn_up");
      pair.module = "model.layers." + pair.module.substr(4, 1) + (up ? ".mlp.up_proj" : ".self_attn.o_proj");
    }
    write_peft(other, folder_.path() / "other");
  }
  std::string one() const { return (folder_.path() / "one.gguf").string(); }
  std::string other() const { return (folder_.path() / "other").string(); }
  const TemporaryFolder& folder() const { return folder_; }

private:
  TemporaryFolder folder_;
};

std::vector<uint32_t> ids_with(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"generate", fixtures().story().string(), "--prompt", "Once upon", "-n", "12", "--json"});
  const CommandResult result = pumice_command(more);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out)["ids"];
}

} // namespace

TEST_CASE("adapters of a command") {
  const Adapters adapters;
  const auto plain = ids_with({});
  const auto one = ids_with({"--lora", adapters.one()});
  const auto half = ids_with({"--lora", adapters.one() + "=3.5"});
  const auto both = ids_with({"--lora", adapters.one(), "--lora", adapters.other() + "=-2"});
  CHECK(one != plain);
  CHECK(half != one);
  CHECK(both != one);
  CHECK(ids_with({"--lora", adapters.one() + "=0"}) == plain);
  CHECK(ids_with({"--lora", adapters.one() + "=1", "--lora", adapters.other() + "=0"}) == one);

  // The same text by itself, and as an answer of requests that differ.
  const CommandResult run =
      pumice_command({"run", fixtures().story().string(), "Once upon", "-n", "12", "--temp", "0", "--lora",
                      adapters.one(), "--json", "--kv", "f32"});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK(json::parse(run.out)["ids"] == json(one));
  const auto request = [](const json& lora) {
    json line = {{"prompt", "Once upon"}, {"count", 12}};
    if (!lora.is_null()) line["lora"] = lora;
    return line.dump() + "\n";
  };
  const std::string lines =
      request(json::array()) + request(adapters.one()) + request({adapters.one() + "=3.5"}) +
      request({adapters.one(), adapters.other() + "=-2"}) + request({}) + request(json::array());
  const CommandResult answers =
      pumice_command({"generate", fixtures().story().string(), "--requests", "-", "--lora",
                      adapters.one() + "=0", "--lora", adapters.other() + "=0"},
                     lines);
  CAPTURE(answers.err);
  REQUIRE(answers.status == 0);
  std::istringstream text(answers.out);
  std::vector<std::vector<uint32_t>> found;
  for (std::string line; std::getline(text, line);) found.push_back(json::parse(line)["ids"]);
  CHECK(found == std::vector{plain, one, half, both, plain, plain});
}

TEST_CASE("adapters that a command refuses") {
  const Adapters adapters;
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", fixtures().story().string(), "--prompt", "Once", "-n", "2"});
    return pumice_command(more);
  };
  CHECK(fails_saying(refused({"--lora", "nothing.gguf"}), {"nothing.gguf"}) == "");
  CHECK(fails_saying(refused({"--lora", adapters.one() + "=much"}), {"--lora", "SCALE"}) == "");
  CHECK(fails_saying(refused({"--lora", adapters.one() + "=1e9"}), {"--lora", "1000"}) == "");
  CHECK(fails_saying(refused({"--lora", adapters.one() + "=nan"}), {"--lora", "1000"}) == "");
  CHECK(fails_saying(refused({"--lora", adapters.one(), "--lora", adapters.one()}), {"twice"}) == "");
  CHECK(fails_saying(refused({"--lora", fixtures().story().string()}), {"general.type", "no adapter"}) == "");
  CHECK(fails_saying(pumice_command({"generate", fixtures().model("t5").string(), "--prompt", "a", "--lora",
                                     adapters.one()}),
                     {"t5"}) == "");
  const CommandResult unknown =
      pumice_command({"generate", fixtures().story().string(), "--requests", "-", "--lora", adapters.one()},
                     R"({"prompt": "Once", "lora": "other"})"
                     "\n");
  CHECK(unknown.status == 1);
  for (const char* part : {"line 1", "other", "--lora"}) CHECK(unknown.err.find(part) != std::string::npos);
}

TEST_CASE("adapters that requests to a server choose") {
  const Adapters adapters;
  const Server server({"--alias", "story", "--kv", "f32", "--lora", adapters.one() + "=0", "--lora",
                       adapters.other() + "=-2"},
                      {fixtures().story().string()}, "64");
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  const auto told = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"generate", fixtures().story().string(), "--prompt", "Once upon", "-n", "12", "--json"});
    return json::parse(pumice_command(more).out)["text"].get<std::string>();
  };
  const auto body = [](const json& lora) {
    json made = {{"prompt", "Once upon"}, {"max_tokens", 12}, {"temperature", 0}};
    if (!lora.is_null()) made["lora"] = lora;
    return made;
  };
  const auto written = [&](const json& lora) {
    return server.ask("/v1/completions", body(lora))["choices"][0]["text"].get<std::string>();
  };
  const std::string plain = told({}), one = told({"--lora", adapters.one() + "=3.5"}),
                    other = told({"--lora", adapters.other() + "=-2"});
  REQUIRE(plain != one);
  REQUIRE(plain != other);
  const json first = {{"id", 0}, {"scale", 3.5}}, second = {{"id", 1}, {"scale", -2}};
  // One after the other, and together in the steps of the batch.
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> found(5);
    const std::vector<json> asked = {json(), json::array(), json::array({first}), json::array({second}),
                                     json::array({first, second})};
    std::vector<std::thread> clients;
    for (size_t at = 0; at < found.size(); ++at) {
      clients.emplace_back([&, at] { found[at] = written(asked[at]); });
      if (i == 0) clients.back().join();
    }
    for (std::thread& each : clients)
      if (each.joinable()) each.join();
    CHECK(found ==
          std::vector{other, plain, one, other,
                      told({"--lora", adapters.one() + "=3.5", "--lora", adapters.other() + "=-2"})});
  }
  const json listed = json::parse(server.get("/v1/models/story").body)["adapters"];
  REQUIRE(listed.size() == 2);
  CHECK(listed[0]["name"] == "one");
  CHECK(listed[1]["scale"] == -2);
  const auto refused = [&](const json& lora, const char* field) {
    CHECK(server.refused("/v1/completions", body(lora).dump()).find(field) != std::string::npos);
  };
  refused("one", "'lora'");
  const json unknown = {{"id", 2}}, loud = {{"id", 0}, {"scale", 1e9}}, wordy = {{"id", 0}, {"scale", "all"}};
  refused(json::array({unknown}), "'lora[0].id'");
  refused(json::array({first, loud}), "'lora[1].scale'");
  refused(json::array({wordy}), "'lora[0].scale'");
}

TEST_CASE("a text's perplexity with an adapter") {
  const Adapters adapters;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "Once upon a time there was a little girl named Lily. ";
  adapters.folder().write("text.txt", text);
  const auto measured = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"perplexity", fixtures().story().string(), (adapters.folder().path() / "text.txt").string(),
                 "--context", "32", "--json"});
    const CommandResult result = pumice_command(more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out)["perplexity"].get<double>();
  };
  const double plain = measured({});
  CHECK(measured({"--lora", adapters.one() + "=0"}) == plain);
  CHECK(measured({"--lora", adapters.one()}) > plain);
}
