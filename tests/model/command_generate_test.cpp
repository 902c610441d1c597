#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "support/command.h"
#include "support/fixtures.h"
#include "support/gpu.h"

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

TEST_CASE("generate --json gives the reference's greedy ids") {
  const auto folder = fixtures();
  if (!folder) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const std::filesystem::path model = *folder / "models" / "llama-mha";
  const SafetensorsFile expected = open(model / "expected.safetensors");
  std::string ids;
  for (int64_t id : integers(expected, "prompt_ids")) {
    if (!ids.empty()) ids += ',';
    ids += std::to_string(id);
  }
  const CommandResult result = pumice_command({"generate", model.string(), "--ids", ids, "-n", "12", "--temp",
                                               "0", "--ignore-eos", "--json", "--no-cache"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json object = json::parse(result.out);
  CHECK(object["ids"] == json(integers(expected, "generated_ids")));
  CHECK(!object["device"].get<std::string>().empty());
  CHECK(object.contains("driver"));

  const CommandResult from_file =
      pumice_command({"generate", model.string(), "--inputs", (model / "expected.safetensors").string(),
                      "--ignore-eos", "--json", "--no-cache", "--chunk", "3"});
  CAPTURE(from_file.err);
  REQUIRE(from_file.status == 0);
  CHECK(json::parse(from_file.out)["ids"] == object["ids"]);
}

TEST_CASE("eval gives the reference's logits and hidden states") {
  const auto folder = fixtures();
  if (!folder) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const std::filesystem::path model = *folder / "models" / "llama-gqa";
  const SafetensorsFile expected = open(model / "expected.safetensors");
  const TemporaryFolder temporary;
  for (const char* chunk : {"7", "128"}) {
    const std::filesystem::path out = temporary.path() / "out.safetensors";
    const CommandResult result =
        pumice_command({"eval", model.string(), "--inputs", (model / "expected.safetensors").string(),
                        "--outputs", out.string(), "--output", "hidden_states.0", "--output",
                        "hidden_states.2", "--chunk", chunk, "--no-cache"});
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

TEST_CASE("eval runs the same with padding on either side") {
  const auto folder = fixtures();
  if (!folder) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const std::filesystem::path model = *folder / "models" / "llama-gqa";
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
  const CommandResult result = pumice_command(
      {"eval", model.string(), "--inputs", in.string(), "--outputs", out.string(), "--no-cache"});
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
