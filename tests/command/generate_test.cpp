#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

SafetensorsFile open(const std::filesystem::path& path) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok()) FAIL(file.error().text());
  return *std::move(file);
}

const SafetensorsFile::Entry& entry(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsFile::Entry* found = file.find(name);
  if (!found) FAIL("no tensor " << name);
  return *found;
}

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  return *SafetensorsFile::floats(entry(file, name));
}

std::vector<int64_t> integers(const SafetensorsFile& file, const std::string& name) {
  return *SafetensorsFile::integers(entry(file, name));
}

} // namespace

FIXTURE_TEST_CASE("generate --json gives the reference's greedy ids") {
  const std::filesystem::path model = fixtures().model("llama-mha");
  const SafetensorsFile expected = open(model / "expected.safetensors");
  std::string ids;
  for (int64_t id : integers(expected, "prompt_ids")) {
    if (!ids.empty()) ids += ',';
    ids += std::to_string(id);
  }
  const CommandResult result = pumice_command(
      {"generate", model.string(), "--ids", ids, "-n", "12", "--temp", "0", "--ignore-eos", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json object = json::parse(result.out);
  CHECK(object["ids"] == json(integers(expected, "generated_ids")));
  CHECK(!object["device"].get<std::string>().empty());
  CHECK(object.contains("driver"));

  const CommandResult from_file =
      pumice_command({"generate", model.string(), "--inputs", (model / "expected.safetensors").string(),
                      "--ignore-eos", "--json", "--chunk", "3"});
  CAPTURE(from_file.err);
  REQUIRE(from_file.status == 0);
  CHECK(json::parse(from_file.out)["ids"] == object["ids"]);
}

FIXTURE_TEST_CASE("eval gives the reference's logits and hidden states") {
  const std::filesystem::path model = fixtures().model("llama-gqa");
  const SafetensorsFile expected = open(model / "expected.safetensors");
  const TemporaryFolder temporary;
  for (const char* chunk : {"7", "128"}) {
    const std::filesystem::path out = temporary.path() / "out.safetensors";
    const CommandResult result = pumice_command(
        {"eval", model.string(), "--inputs", (model / "expected.safetensors").string(), "--outputs",
         out.string(), "--output", "hidden_states.0", "--output", "hidden_states.2", "--chunk", chunk});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.out == "");
    const SafetensorsFile written = open(out);
    CHECK(entry(written, "logits").shape == entry(expected, "logits").shape);
    for (const char* name : {"logits", "hidden_states.0", "hidden_states.2"}) {
      CAPTURE(name);
      CHECK(relative_rms(floats(written, name), floats(expected, name)) < 1e-4);
    }
  }
}

FIXTURE_TEST_CASE("eval runs the same with padding on either side") {
  const std::filesystem::path model = fixtures().model("llama-gqa");
  const SafetensorsFile expected = open(model / "expected.safetensors");
  const std::vector<int64_t> ids = integers(expected, "input_ids");
  const size_t count = ids.size(), columns = count + 3;
  std::vector<int64_t> padded(2 * columns), mask(2 * columns);
  for (size_t i = 0; i < count; ++i) {
    padded[i + 3] = padded[columns + i] = ids[i];
    mask[i + 3] = mask[columns + i] = 1;
  }
  const TemporaryFolder temporary;
  const std::filesystem::path in = temporary.path() / "in.safetensors",
                              out = temporary.path() / "out.safetensors";
  const SafetensorsFile::Entry entries[] = {
      {"input_ids", "I64", {2, columns}, std::as_bytes(std::span(padded))},
      {"attention_mask", "I64", {2, columns}, std::as_bytes(std::span(mask))}};
  REQUIRE(write_safetensors(in, entries).ok());
  const CommandResult result =
      pumice_command({"eval", model.string(), "--inputs", in.string(), "--outputs", out.string()});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const std::vector<float> logits = floats(open(out), "logits"), wanted = floats(expected, "logits");
  const std::span all(logits);
  const size_t width = wanted.size() / count;
  CHECK(relative_rms(all.subspan(3 * width, wanted.size()), wanted) < 1e-4);
  CHECK(relative_rms(all.subspan(columns * width, wanted.size()), wanted) < 1e-4);
  for (size_t i = 0; i < 3 * width; ++i) {
    REQUIRE(all[i] == 0);
    REQUIRE(all[(columns + count) * width + i] == 0);
  }
}

namespace {

json generate_json(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"generate", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

// What it has of the first input, whether there are others or not.
json first_of(const json& object) {
  return object.contains("sequences") ? object["sequences"][0] : object;
}

std::vector<int64_t> until(std::vector<int64_t> ids, const json& end) {
  ids.erase(std::ranges::find(ids, end.get<int64_t>()), ids.end());
  return ids;
}

} // namespace

FIXTURE_TEST_CASE("generate gives encoder-decoders' greedy ids and those of beam search" *
                  doctest::test_suite("rest")) {
  for (const char* name : {"t5", "flan-t5", "marian", "marian-relu", "bart", "whisper", "vit-gpt2"}) {
    CAPTURE(name);
    const std::filesystem::path model = fixtures().model(name);
    const std::string in = (model / "expected.safetensors").string();
    const SafetensorsFile expected = open(in);
    const json greedy = generate_json({model.string(), "--inputs", in, "-n", "12", "--ignore-eos"});
    CHECK(first_of(greedy)["ids"] == json(integers(expected, "generated_ids")));
    CHECK(!first_of(greedy).contains("score"));
    if (!expected.find("beam4_ids")) continue;
    const json end = json::parse(std::ifstream(model / "generation_config.json"))["eos_token_id"];
    const json beams =
        generate_json({model.string(), "--inputs", in, "-n", "12", "--beams", "4", "--n-best", "2"});
    const json first = first_of(beams);
    CHECK(first["ids"] == json(until(integers(expected, "beam4_ids"), end)));
    REQUIRE(first["hypotheses"].size() == 2);
    CHECK(first["hypotheses"][0]["ids"] == first["ids"]);
    CHECK(first["hypotheses"][0]["score"] >= first["hypotheses"][1]["score"]);
    // By itself it is the same as beside the others.
    if (!beams.contains("sequences")) continue;
    const json alone = generate_json({model.string(), "--inputs", in, "-n", "12", "--beams", "4", "--n-best",
                                      "2", "--sequences", "1", "--batch-tokens", "1"});
    CHECK(alone["sequences"] == beams["sequences"]);
  }
}

FIXTURE_TEST_CASE("generate writes ids to a file, filled up with the padding token") {
  const TemporaryFolder temporary;
  const std::string out = (temporary.path() / "out.safetensors").string();
  const std::filesystem::path model = fixtures().model("bart"); // pads with 1, ends with 2
  const std::string in = (model / "expected.safetensors").string();
  const json all =
      generate_json({model.string(), "--inputs", in, "-n", "12", "--ignore-eos", "--outputs", out});
  CHECK(entry(open(out), "generated_ids").shape == std::vector<uint64_t>{2, 12});
  const std::vector<int64_t> ids = integers(open(out), "generated_ids");
  std::vector<int64_t> expected = all["sequences"][0]["ids"];
  for (int64_t id : all["sequences"][1]["ids"]) expected.push_back(id);
  CHECK(ids == expected);

  // The second text ends early, at a token of its own.
  size_t at = 13;
  while (at < 24 && std::ranges::count(std::span(ids).first(at), ids[at])) ++at;
  REQUIRE(at < 24);
  const json cut = generate_json({model.string(), "--inputs", in, "-n", "12", "--ignore-eos", "--stop-id",
                                  std::to_string(ids[at]), "--outputs", out});
  expected.assign(ids.begin() + 12, ids.begin() + static_cast<ptrdiff_t>(at));
  CHECK(cut["sequences"][1]["ids"] == json(expected));
  expected = ids;
  std::fill(expected.begin() + static_cast<ptrdiff_t>(at) + 1, expected.end(), 1);
  CHECK(integers(open(out), "generated_ids") == expected);

  const std::filesystem::path llama = fixtures().model("llama-mha");
  const std::string prompts = (llama / "expected.safetensors").string();
  generate_json({llama.string(), "--inputs", prompts, "--ignore-eos", "--outputs", out});
  CHECK(integers(open(out), "generated_ids") == integers(open(prompts), "generated_ids"));
  CHECK(entry(open(out), "generated_ids").shape == entry(open(prompts), "generated_ids").shape);
}

FIXTURE_TEST_CASE("generate: ids and options of encoder-decoders, and what they cannot be") {
  const std::string t5 = fixtures().model("t5").string(), bert = fixtures().model("bert").string(),
                    vit = fixtures().model("vit").string(), llama = fixtures().model("llama-mha").string(),
                    captions = fixtures().model("vit-gpt2").string();
  const SafetensorsFile expected = open(t5 + "/expected.safetensors");
  const std::vector<int64_t> inputs = integers(expected, "input_ids"),
                             mask = integers(expected, "attention_mask");
  std::string ids;
  for (size_t i = 0; i < inputs.size() / 2; ++i) {
    if (mask[i]) ids += (ids.empty() ? "" : ",") + std::to_string(inputs[i]);
  }
  CHECK(generate_json({t5, "--ids", ids, "--ignore-eos"})["ids"] ==
        json(integers(expected, "generated_ids")));
  const json free = generate_json({t5, "--ids", ids, "--ignore-eos", "-n", "40"}),
             limited =
                 generate_json({t5, "--ids", ids, "--ignore-eos", "-n", "40", "--no-repeat-ngram", "1"});
  std::set<int> seen;
  for (int id : limited["ids"]) CHECK(seen.insert(id).second);
  CHECK(limited["ids"].size() == 40);
  CHECK(free["ids"] != limited["ids"]);
  CHECK(generate_json({t5, "--ids", ids, "-n", "0"})["ids"] == json::array());

  const auto fails = [&](std::vector<std::string> arguments, const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin(), "generate");
    return fails_saying(pumice_command(arguments), parts);
  };
  CHECK(fails({bert, "--ids", "1"}, {"bert is an encoder", "pumice embed"}) == "");
  CHECK(fails({vit, "--ids", "1"}, {"vit is an encoder of pictures", "pumice classify"}) == "");
  CHECK(fails({t5}, {"--ids", "--inputs", "--prompt"}) == "");
  CHECK(fails({t5, "--ids", "320"}, {"--ids", "0 to 319", "320"}) == "");
  CHECK(fails({t5, "--ids", "1", "--n-best", "2"}, {"--n-best", "beams", "2"}) == "");
  CHECK(fails({t5, "--ids", "1", "--beams", "0"}, {"--beams"}) == "");
  CHECK(fails({t5, "--ids", "1", "--early-stopping", "maybe"}, {"--early-stopping", "never", "maybe"}) == "");
  CHECK(fails({t5, "--ids", "1", "--stop-id", "9999"}, {"--stop-id", "9999"}) == "");
  CHECK(fails({t5, "--ids", "1", "--session", "file"}, {"--session"}) == "");
  CHECK(fails({captions, "--ids", "1"}, {"vit-gpt2 is an encoder-decoder", "--inputs"}) == "");
  CHECK(fails({llama, "--ids", "1", "--beams", "4"}, {"llama-mha is a decoder", "beams"}) == "");
}
