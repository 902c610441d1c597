// Whole models against the answers of a reference implementation.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "io/safetensors.h"
#include "support/fixtures.h"
#include "support/gpu.h"
#include "support/model.h"

using namespace pumice;

namespace {

struct Expected {
  std::vector<uint32_t> input_ids, prompt_ids, generated_ids;
  std::vector<float> logits;
};

std::vector<uint32_t> ids(const SafetensorsFile& file, const char* name) {
  const SafetensorsFile::Entry* entry = file.find(name);
  if (!entry) return {};
  const auto values = SafetensorsFile::integers(*entry);
  REQUIRE(values.ok());
  return {values->begin(), values->end()};
}

Expected read_expected(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file.ok()) FAIL(file.error().text());
  Expected expected{ids(*file, "input_ids"), ids(*file, "prompt_ids"), ids(*file, "generated_ids"), {}};
  if (const SafetensorsFile::Entry* logits = file->find("logits")) {
    auto values = SafetensorsFile::floats(*logits);
    REQUIRE(values.ok());
    expected.logits = *values;
  }
  return expected;
}

// Logits within 1e-4 and equal greedy ids, whatever the prompt is cut into; the logits the same to the bit.
void check_model(const std::filesystem::path& model_path, const std::filesystem::path& expected_path) {
  CAPTURE(model_path.string());
  const Expected expected = read_expected(expected_path);
  const auto model = load_model(model_path);
  std::vector<float> first;
  for (uint32_t chunk : {128u, 1u, 7u, 64u}) {
    CAPTURE(chunk);
    if (!expected.logits.empty()) {
      const std::vector<float> logits = forward(model, expected.input_ids, chunk);
      CHECK(relative_rms(logits, expected.logits) <= 1e-4);
      if (first.empty()) first = logits;
      CHECK(logits == first);
    }
    CHECK(continue_greedily(model, expected.prompt_ids, expected.generated_ids.size(), chunk) ==
          expected.generated_ids);
  }
}

} // namespace

TEST_CASE("llama folders and their GGUF twins") {
  const auto root = fixtures();
  if (!root) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  for (const char* name : {"llama-mha", "llama-gqa", "llama-mqa"}) {
    const auto folder = *root / "models" / name;
    check_model(folder, folder / "expected.safetensors");
    if (std::filesystem::exists(folder / "model.gguf")) {
      check_model(folder / "model.gguf", folder / "expected.safetensors");
    }
  }
}

TEST_CASE("one small llama in every tensor type") {
  const auto root = fixtures();
  if (!root) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  for (const std::string type : {"F32", "F16", "BF16", "Q8_0", "Q4_0"}) {
    check_model(*root / "gguf" / ("random-" + type + ".gguf"),
                *root / "gguf" / ("random-" + type + ".expected.safetensors"));
  }
}

TEST_CASE("a trained model tells its story token for token") {
  const auto root = fixtures();
  if (!root) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const auto expected = read_expected(*root / "gguf" / "stories260K-F32.expected.safetensors");
  REQUIRE(expected.generated_ids.size() >= 120);
  check_model(*root / "gguf" / "stories260K-F32.gguf",
              *root / "gguf" / "stories260K-F32.expected.safetensors");
}

TEST_CASE("the model that ships continues as its trainer computed") {
  const std::filesystem::path folder = std::filesystem::path(PUMICE_SOURCE_DIR) / "models" / "pretrained";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    std::ifstream stream(entry.path().parent_path() / (entry.path().stem().string() + ".expected.json"));
    const nlohmann::json expected = nlohmann::json::parse(stream);
    const auto prompt = expected["prompt_ids"].get<std::vector<uint32_t>>();
    const auto generated = expected["ids"].get<std::vector<uint32_t>>();
    const auto model = load_model(entry.path());
    for (uint32_t chunk : {128u, 1u})
      CHECK(continue_greedily(model, prompt, generated.size(), chunk) == generated);
  }
}
