// Every architecture against a reference's answers: from Hugging Face folders and the GGUF files converted
// from them, whatever the prompt is cut into and whoever shares its steps.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <tuple>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

using namespace pumice;

namespace {

constexpr const char* folders[] = {
    "llama-mha", "llama-gqa",     "llama-mqa",  "mistral-swa", "mixtral-moe", "qwen2",          "qwen3",
    "gemma",     "gemma2",        "gemma3",     "phi3",        "gpt2",        "gpt-neox",       "olmo2",
    "olmo3",     "granite",       "smollm3",    "glm4",        "starcoder2",  "stablelm",       "seed-oss",
    "ernie4-5",  "exaone4",       "cohere2",    "nemotron",    "phi",         "falcon",         "bloom",
    "opt",       "hunyuan-dense", "ministral3", "qwen3-moe",   "qwen2-moe",   "glm4-moe",       "minimax-m2",
    "gpt-oss",   "llama4",        "lfm2",       "mamba2",      "falcon-h1",   "granite-hybrid", "qwen3-next",
    "qwen3-5",   "qwen3-5-moe",   "gemma4",     "gemma4-moe",  "deepseek-v2", "deepseek-v3"};
// That only the repository's own set has.
constexpr const char* own_folders[] = {
    "arcee", "cohere",       "olmoe",       "granite-moe", "ernie4-5-moe", "hunyuan-moe", "lfm2-moe",
    "dots1", "apertus",      "bitnet",      "olmo",        "cohere-plus",  "glm",         "glm4-moe-lite",
    "mamba", "falcon-mamba", "jamba",       "exaone-moe",  "phimoe",       "nemotron-h",  "nemotron-h-moe",
    "afmoe", "deepseek-v32", "glm-moe-dsa", "gemma3n",     "minicpm3",     "dbrx",        "mimo2"};

// Those of the running test's set.
std::vector<std::string> folders_of_set() {
  std::vector<std::string> names(std::begin(folders), std::end(folders));
  if (&fixtures() == &fixture_sets()[0])
    names.insert(names.end(), std::begin(own_folders), std::end(own_folders));
  return names;
}

// A long run has each from its folder and as the GGUF file that convert writes, the second driver's one of
// the two, and a short one every sixth from its folder. PUMICE_TEST_MODEL names one, in both forms.
bool takes_form(const std::vector<std::string>& names, const std::string& name, bool gguf) {
  if (const char* only = std::getenv("PUMICE_TEST_MODEL")) return name == only;
  const auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  if (first_turn() == 0 && !gguf) return takes(place % 6 == 1);
  return takes((place % 2 == 0) == gguf);
}

// GGUF has no key for which layers of SmolLM3 are not rotated, for Llama 4's chunks and for dots1's windows.
constexpr std::string_view not_in_gguf[] = {"smollm3", "llama4", "dots1"};

struct Expected {
  std::vector<uint32_t> input_ids, prompt_ids, generated_ids;
  std::map<std::string, std::vector<float>> tensors; // logits and hidden_states.N
  std::vector<float> attention; // of the first layer, [heads, tokens, tokens]; empty: it has none
};

Expected read_expected(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file.ok()) FAIL(file.error().text());
  Expected expected;
  for (const auto& [name, ids] : {std::pair("input_ids", &expected.input_ids),
                                  {"prompt_ids", &expected.prompt_ids},
                                  {"generated_ids", &expected.generated_ids}}) {
    const auto values = SafetensorsFile::integers(*file->find(name));
    REQUIRE(values.ok());
    ids->assign(values->begin(), values->end());
  }
  for (const SafetensorsFile::Entry& entry : file->entries) {
    const bool attention = entry.name == "attentions.0";
    if (entry.name != "logits" && !entry.name.starts_with("hidden_states.") && !attention) continue;
    const auto values = SafetensorsFile::floats(entry);
    REQUIRE(values.ok());
    (attention ? expected.attention : expected.tensors[entry.name]) = *values;
  }
  REQUIRE(expected.tensors.size() >= 3);
  return expected;
}

constexpr uint32_t chunks[] = {1, 7, 128};

// The first layer's weights, put in the reference's order.
void check_attention(const std::shared_ptr<const Model>& model, const Expected& expected, size_t turn) {
  const size_t tokens = expected.input_ids.size(), heads = expected.attention.size() / (tokens * tokens);
  REQUIRE(heads > 0);
  for (uint32_t chunk : turn_of(chunks, turn)) {
    ForwardOptions options;
    options.chunk = chunk;
    options.readable = {"attentions.0"};
    const std::vector<float> rows = forward(model, expected.input_ids, options).at("attentions.0");
    std::vector<float> weights(rows.size());
    for (size_t query = 0; query < tokens; ++query) {
      for (size_t head = 0; head < heads; ++head) {
        const auto from = rows.begin() + static_cast<ptrdiff_t>((query * heads + head) * tokens);
        std::copy_n(from, tokens, weights.begin() + static_cast<ptrdiff_t>((head * tokens + query) * tokens));
      }
    }
    CHECK(relative_rms(weights, expected.attention) <= 1e-4);
  }
}

// Of the prompt, and the sequences beside it.
constexpr std::pair<uint32_t, uint32_t> divisions[] = {{1, 0}, {7, 0}, {128, 0}, {1, 2}, {7, 1}, {128, 3}};
constexpr std::pair<CacheType, double> rounded_caches[] = {{CacheType::f16, 5e-3}, {CacheType::q8_0, 5e-2}};

void check(const std::filesystem::path& path, const Expected& expected, size_t turn) {
  CAPTURE(path.string());
  const auto model = load_model(path);
  ForwardOptions options;
  options.readable.clear();
  for (const auto& [name, values] : expected.tensors) options.readable.push_back(name);
  std::map<std::string, std::vector<float>> first;
  auto some = turn_of(divisions, turn);
  if (turn % 5 == 0) some.push_back(divisions[(turn + 1) % std::size(divisions)]);
  for (const auto& division : some) {
    std::tie(options.chunk, options.beside) = division;
    CAPTURE(options.chunk);
    CAPTURE(options.beside);
    const auto tensors = forward(model, expected.input_ids, options);
    for (const auto& tensor : expected.tensors) {
      CAPTURE(tensor.first);
      CHECK(relative_rms(tensors.at(tensor.first), tensor.second) <= 1e-4);
    }
    if (first.empty()) first = tensors;
    CHECK(same_in_any_step(tensors, first));
  }
  if (takes(turn % 3 == 0) && !expected.attention.empty()) check_attention(model, expected, turn);
  options.beside = 0;
  for (const auto& rounded : turn_of(rounded_caches, turn / 3)) {
    if (!takes(turn % 3 == 1)) break;
    options.cache = rounded.first;
    CAPTURE(to_string(options.cache));
    CHECK(relative_rms(forward(model, expected.input_ids, options).at("logits"),
                       expected.tensors.at("logits")) <= rounded.second);
  }
  for (uint32_t chunk : turn_of(chunks, turn)) {
    if (!takes(turn % 2 == 0)) break;
    CHECK(continue_greedily(model, expected.prompt_ids, expected.generated_ids.size(), chunk) ==
          expected.generated_ids);
  }
}

} // namespace

// The tensors of each architecture in one division of the prompt, which take turns; every fifth in two, whose
// bits are the same. Every other one's text; every third one's weights of attention, and a rounded cache.
// Drivers without GPU compile kernels for each; a long run has all for each.
FIXTURE_TEST_CASE("every architecture gives what its reference gives") {
  size_t turn = 0;
  const std::vector<std::string> names = folders_of_set();
  for (const std::string& name : names) {
    if (!takes_form(names, name, false)) continue;
    const auto folder = fixtures().model(name);
    const Expected expected = read_expected(folder / "expected.safetensors");
    check(folder, expected, turn);
    if (std::filesystem::exists(folder / "model.gguf")) check(folder / "model.gguf", expected, turn);
    ++turn;
  }
}

// Each architecture's tensors and settings: their names in a GGUF file. Texts in turn, in a long run of all.
FIXTURE_TEST_CASE("the GGUF that convert writes of every architecture is the same model" *
                  doctest::test_suite("rest")) {
  size_t turn = 0;
  const std::vector<std::string> names = folders_of_set();
  for (const std::string& name : names) {
    if (!takes_form(names, name, true)) continue;
    const uint32_t chunk = chunks[turn++ % std::size(chunks)]; // whose kernels are there
    CAPTURE(name);
    const TemporaryFolder temporary;
    const auto folder = fixtures().model(name);
    const std::string out = (temporary.path() / "model.gguf").string();
    const CommandResult converted =
        pumice_command({"convert", folder.string(), out, "--type", "F32", "--no-vocabulary"});
    CAPTURE(converted.err);
    if (std::ranges::find(not_in_gguf, name) != std::end(not_in_gguf)) {
      CHECK(converted.status != 0);
      CHECK(converted.err.find("GGUF") != std::string::npos);
      continue;
    }
    REQUIRE(converted.status == 0);
    const Expected expected = read_expected(folder / "expected.safetensors");
    const auto model = load_model(out);
    CHECK(relative_rms(forward(model, expected.input_ids, chunk), expected.tensors.at("logits")) <= 1e-4);
    if (!takes(turn % 4 == 1)) continue;
    CHECK(continue_greedily(model, expected.prompt_ids, expected.generated_ids.size(), chunk) ==
          expected.generated_ids);
  }
}

namespace {

// A fixture's model with other settings is another model, and the same one as GGUF.
void check_converted(const std::string& name, const nlohmann::json& settings) {
  const TemporaryFolder temporary;
  const auto folder = temporary.path() / name;
  std::filesystem::copy(fixtures().model(name), folder);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  config.update(settings);
  std::ofstream(folder / "config.json") << config;
  const auto out = temporary.path() / "model.gguf";
  const CommandResult converted =
      pumice_command({"convert", folder.string(), out.string(), "--type", "F32", "--no-vocabulary"});
  CAPTURE(converted.err);
  REQUIRE(converted.status == 0);
  const Expected expected = read_expected(folder / "expected.safetensors");
  const auto logits = forward(load_model(folder), expected.input_ids, 128);
  CHECK(relative_rms(logits, expected.tensors.at("logits")) > 1e-2); // of the fixture's own settings
  CHECK(relative_rms(forward(load_model(out), expected.input_ids, 128), logits) <= 1e-5);
}

} // namespace

// A GGUF file does not say which layers are rotated, so only SmolLM3's own pattern can be converted.
TEST_CASE("a SmolLM3 that rotates three of four layers is the same model as GGUF") {
  check_converted("smollm3", {{"no_rope_layers", {1, 1, 1, 0}}});
}

TEST_CASE("a Llama 4 with the published chunks and growth is the same model as GGUF") {
  check_converted("llama4", {{"attention_chunk_size", 8192}, {"floor_scale", 8192}});
}

TEST_CASE("a dots1 without windows, as published, is the same model as GGUF") {
  check_converted("dots1", {{"sliding_window", nullptr}, {"layer_types", nullptr}});
}

// GGUF has no keys for them: they are in its weights.
TEST_CASE("a Falcon-H1 with factors is the same model as GGUF") {
  check_converted("falcon-h1", {{"attention_in_multiplier", 0.7},
                                {"attention_out_multiplier", 0.9},
                                {"key_multiplier", 1.3},
                                {"embedding_multiplier", 5.6},
                                {"lm_head_multiplier", 0.4},
                                {"ssm_in_multiplier", 1.2},
                                {"ssm_out_multiplier", 0.8},
                                {"ssm_multipliers", {0.5, 1.5, 0.75, 1.25, 2.0}},
                                {"mlp_multipliers", {0.9, 1.1}}});
}

TEST_CASE("a Granite hybrid that rotates is the same model as GGUF") {
  check_converted("granite-hybrid", {{"position_embedding_type", "rope"}});
}
