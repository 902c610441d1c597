// Sizes that no model in the fixtures has, against a plain reference.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <deque>
#include <random>

#include "io/safetensors.h"
#include "models/architecture.h"
#include "support/gpu.h"
#include "support/llama_reference.h"
#include "support/model.h"
#include "support/temporary_folder.h"

using namespace pumice;

namespace {

struct Sizes {
  uint32_t vocabulary, hidden, layers, heads, kv_heads, head_dim, feed_forward;
};

nlohmann::json config(const Sizes& sizes) {
  return {{"model_type", "llama"},
          {"vocab_size", sizes.vocabulary},
          {"hidden_size", sizes.hidden},
          {"num_hidden_layers", sizes.layers},
          {"num_attention_heads", sizes.heads},
          {"num_key_value_heads", sizes.kv_heads},
          {"head_dim", sizes.head_dim},
          {"intermediate_size", sizes.feed_forward},
          {"max_position_embeddings", 100},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}}};
}

// A Hugging Face folder with random weights.
void write_model(const TemporaryFolder& folder, const Sizes& sizes) {
  const std::string text = config(sizes).dump();
  folder.write("config.json", text);
  const auto config_file = ModelFile::open(folder.path());
  REQUIRE(config_file.ok());
  const auto definition = open_definition(*config_file);
  REQUIRE(definition.ok());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::deque<std::vector<float>> values;
  std::vector<SafetensorsFile::Entry> entries;
  for (const WeightSpec& spec : (*definition)->weights()) {
    uint64_t count = 1;
    for (uint64_t size : spec.shape) count *= size;
    const bool norm = spec.shape.size() == 1;
    const float scale = norm ? 0.1f : 1.0f / std::sqrt(static_cast<float>(spec.shape.back()));
    std::vector<float>& data = values.emplace_back(count);
    for (float& value : data) value = normal(random) * scale + (norm ? 1.0f : 0.0f);
    entries.push_back({spec.name, "F32", spec.shape, std::as_bytes(std::span(data))});
  }
  REQUIRE(write_safetensors(folder.path() / "model.safetensors", entries).ok());
}

} // namespace

TEST_CASE("sizes that divide nothing evenly") {
  // clang-format off
  //                          vocabulary hidden layers heads kv_heads head_dim feed_forward
  for (const Sizes& sizes : {Sizes{203,      60,    2,    6,      3,      10,      101},
                             Sizes{1,         2,    1,    1,      1,       2,        1},
                             Sizes{97,       33,    3,    5,      1,       6,       67},
                             Sizes{331,     130,    1,    9,      3,      34,      257},
                             Sizes{65,      100,    2,    2,      2,     300,       31}}) {
    // clang-format on
    CAPTURE(sizes.hidden);
    const TemporaryFolder folder;
    write_model(folder, sizes);
    const auto model = load_model(folder.path());
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 45; ++i) ids.push_back((i * i * 31 + 7) % sizes.vocabulary);
    const std::vector<double> reference = llama_reference(model->file(), ids);
    ForwardOptions options;
    const auto whole = forward(model, ids, options);
    CHECK(relative_rms(whole.at("logits"), std::vector<float>(reference.begin(), reference.end())) <= 1e-4);
    for (const auto& [chunk, beside] : {std::pair(1u, 0u), {7u, 2u}, {33u, 1u}}) {
      options.chunk = chunk;
      options.beside = beside;
      CHECK(forward(model, ids, options) == whole);
    }
  }
}
