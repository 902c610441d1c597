// Whole models against the answers of a reference implementation.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

#include "io/formats/safetensors.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/llama_reference.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

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

constexpr uint32_t chunks[] = {128, 1, 7, 64};

// Logits within 1e-4 and equal greedy ids, whatever the prompt is cut into; the logits the same.
void check_model(const std::filesystem::path& model_path, const std::filesystem::path& expected_path,
                 size_t turn) {
  CAPTURE(model_path.string());
  const Expected expected = read_expected(expected_path);
  const auto model = load_model(model_path);
  std::vector<float> first;
  for (uint32_t chunk : turn_of(chunks, turn)) {
    CAPTURE(chunk);
    if (!expected.logits.empty()) {
      const std::vector<float> logits = forward(model, expected.input_ids, chunk);
      CHECK(relative_rms(logits, expected.logits) <= 1e-4);
      if (first.empty()) first = logits;
      CHECK(same_in_any_step(logits, first));
    }
    if (takes(turn % 2 == 1 || expected.logits.empty()))
      CHECK(continue_greedily(model, expected.prompt_ids, expected.generated_ids.size(), chunk) ==
            expected.generated_ids);
  }
}

} // namespace

FIXTURE_TEST_CASE("llama folders and their GGUF forms") {
  size_t turn = 0;
  for (const char* name : {"llama-mha", "llama-gqa", "llama-mqa"}) {
    const auto folder = fixtures().model(name);
    check_model(folder, folder / "expected.safetensors", turn);
    if (std::filesystem::exists(folder / "model.gguf")) {
      check_model(folder / "model.gguf", folder / "expected.safetensors", turn);
    }
    ++turn;
  }
}

// Each type in steps of many rows, of few or of one, which take turns, and the text of every other;
// a long run has each type in all.
FIXTURE_TEST_CASE("one small llama in every tensor type") {
  static std::map<std::string, size_t> turns; // the same in each set of fixtures
  size_t found = 0;
  for (const std::string& name : fixtures().ggufs()) {
    if (!name.starts_with("random-")) continue;
    check_model(fixtures().gguf(name), expected_of(fixtures().gguf(name)),
                turns.try_emplace(name, turns.size()).first->second);
    ++found;
  }
  const auto types =
      std::ranges::count_if(tensor_types(), [](const auto& type) { return type.gguf_id < 1000; });
  if (&fixtures() == &fixture_sets().front()) CHECK(found >= static_cast<size_t>(types));
}

// Each model with each type in a long run; in a short one they meet in turn, half of them in shorter steps
// too.
FIXTURE_TEST_CASE(
    "weights quantised while loading: near the float model, and just what a plain reference computes") {
  size_t turn = 0;
  for (const char* name : {"llama-mha", "llama-gqa", "llama-mqa"}) {
    CAPTURE(name);
    const auto folder = fixtures().model(name);
    const Expected expected = read_expected(folder / "expected.safetensors");
    const auto file = ModelFile::open(folder);
    REQUIRE(file.ok());
    constexpr TensorType types[] = {TensorType::bf16, TensorType::q8_0, TensorType::q5_1,
                                    TensorType::q4_0, TensorType::q4_k, TensorType::q6_k};
    const auto reference = [&](std::optional<TensorType> weights) {
      const std::vector<double> values = llama_reference(*file, expected.input_ids, weights);
      return std::vector<float>(values.begin(), values.end());
    };
    CHECK(relative_rms(reference({}), expected.logits) <= 1e-5); // so the reference can be believed
    for (TensorType type : turns_of(types, 3, turn++)) {
      CAPTURE(info(type).name);
      const auto model = load_model(folder, {.weights = type});
      const std::vector<float> logits = forward(model, expected.input_ids, 128);
      CHECK(relative_rms(logits, reference(type)) <= 1e-4);
      const double off = relative_rms(logits, expected.logits);
      CHECK(off > 1e-4); // it was quantised
      if (takes(type == TensorType::bf16 || type == TensorType::q5_1 || type == TensorType::q4_k))
        CHECK(same_in_any_step(forward(model, expected.input_ids, 7), logits));
    }
  }
}

// The random models' logits move six times as far as their weights do; a trained model's do not.
FIXTURE_TEST_CASE("a trained model quantised while loading stays near itself") {
  const auto path = fixtures().story();
  const Expected expected = read_expected(expected_of(fixtures().story()));
  for (const auto& [type, tolerance] : {std::pair(TensorType::q8_0, 1.5e-2), {TensorType::q4_0, 1.7e-1}}) {
    CAPTURE(info(type).name);
    const double off =
        relative_rms(forward(load_model(path, {.weights = type}), expected.input_ids, 128), expected.logits);
    CHECK(off > 1e-4);
    CHECK(off <= tolerance);
  }
}

FIXTURE_TEST_CASE("quantised weights stay as they are, and types that cannot be quantised to are refused") {
  const auto path = fixtures().gguf("random-Q4_0");
  const auto expected = read_expected(expected_of(fixtures().gguf("random-Q4_0")));
  const auto model = load_model(path, {.weights = TensorType::q8_0});
  CHECK(relative_rms(forward(model, expected.input_ids, 128), expected.logits) <= 1e-4);
  const auto refused = Model::load(path, test_context(), {}, {.weights = TensorType::iq2_s});
  REQUIRE(!refused.ok());
  for (const char* part : {"random-Q4_0.gguf", "IQ2_S", "Q8_0, Q4_0"}) {
    CHECK(refused.error().text().find(part) != std::string::npos);
  }
}

FIXTURE_TEST_CASE("a trained model tells its story token for token") {
  const auto expected = read_expected(expected_of(fixtures().story()));
  REQUIRE(expected.generated_ids.size() >= 120);
  check_model(fixtures().story(), expected_of(fixtures().story()), 1);
}

TEST_CASE("the model that ships continues as its trainer computed") {
  const std::filesystem::path folder = pretrained_folder();
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
