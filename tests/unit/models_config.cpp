// The configs of every architecture: what is read, and what is refused.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <deque>

#include "models/architecture.h"
#include "support/messages.h"

using namespace pumice;
using json = nlohmann::json;

namespace {

Result<std::unique_ptr<Definition>> open(const json& config) {
  static std::deque<std::string> texts; // which the files point into
  static std::deque<ModelFile> files;
  const std::string& text = texts.emplace_back(config.dump());
  auto file = ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json");
  if (!file.ok()) return file.error();
  return open_definition(files.emplace_back(*std::move(file)));
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

// Whether opening fails with a message that has all of these in it.
void refused(const json& config, const std::vector<std::string>& parts) {
  const auto definition = open(config);
  REQUIRE(!definition.ok());
  CAPTURE(definition.error().text());
  for (const std::string& part : parts) CHECK(definition.error().text().find(part) != std::string::npos);
}

json base(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100},
          {"hidden_size", 64},        {"num_hidden_layers", 4},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 96},  {"max_position_embeddings", 256}};
}

std::vector<uint32_t> windows(const json& config) {
  const auto definition = open(config);
  if (!definition.ok()) FAIL(definition.error().text());
  std::vector<uint32_t> result;
  for (const LayerCache& layer : (*definition)->shape().layers) result.push_back(layer.window);
  return result;
}

std::string rotary(const json& config) {
  const auto definition = open(config);
  if (!definition.ok()) FAIL(definition.error().text());
  for (const Hyperparameter& each : (*definition)->hyperparameters()) {
    if (each.name == "rotary") return each.value;
  }
  return {};
}

using Windows = std::vector<uint32_t>;

} // namespace

TEST_CASE("which layers have a window") {
  CHECK(windows(base("llama")) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("mistral"), {{"sliding_window", 9}})) == Windows{9, 9, 9, 9});
  CHECK(windows(with(base("mistral"), {{"sliding_window", nullptr}})) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("qwen2"), {{"sliding_window", 9}})) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("qwen2"),
                     {{"sliding_window", 9}, {"use_sliding_window", true}, {"max_window_layers", 3}})) ==
        Windows{0, 0, 0, 9});
  CHECK(windows(with(base("gemma2"), {{"sliding_window", 9}})) == Windows{9, 0, 9, 0});
  CHECK(windows(with(base("gemma3_text"), {{"sliding_window", 9}, {"sliding_window_pattern", 3}})) ==
        Windows{9, 9, 0, 9});
  const json types = {"full_attention", "full_attention", "sliding_attention", "full_attention"};
  CHECK(windows(with(base("gemma2"), {{"sliding_window", 9}, {"layer_types", types}})) ==
        Windows{0, 0, 9, 0});
}

TEST_CASE("rotary positions under all their names") {
  CHECK(rotary(with(base("llama"), {{"rope_theta", 500000}})).find("base 500000") != std::string::npos);
  CHECK(rotary(with(base("llama"), {{"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}}}))
            .find("base 500000") != std::string::npos);
  CHECK(rotary(with(base("llama"), {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}})).find("linear") !=
        std::string::npos);
  CHECK(
      rotary(with(base("qwen2"), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}})).find("yarn") !=
      std::string::npos);
  CHECK(rotary(with(base("gpt_neox"), {{"rotary_pct", 0.5}})).find("8 dimensions") != std::string::npos);
  CHECK(rotary(base("gpt_neox")).find("4 dimensions") !=
        std::string::npos); // a quarter, where nothing is said
}

TEST_CASE("what is wrong or not supported is named") {
  refused(base("perceptron"), {"config.json", "model_type", "gemma3_text", "mixtral", "perceptron"});
  refused(with(base("mistral"), {{"num_key_value_heads", 3}}), {"num_key_value_heads", "4 heads", "found 3"});
  refused(with(base("qwen3"), {{"head_dim", 1000}}), {"head_dim", "512", "1000"});
  refused(with(base("qwen2"), {{"hidden_act", "tanh"}}), {"hidden_act", "silu", "tanh"});
  refused(with(base("llama"), {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}}}),
          {"rope_scaling", "rope_type", "yarn", "dynamic"});
  refused(with(base("llama"), {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}),
          {"rope_scaling", "low_freq_factor"});
  refused(with(base("phi3"),
               {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2}}}}}),
          {"rope_scaling", "short_factor", "8 pairs", "found 2"});
  refused(with(base("mixtral"), {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
          {"num_experts_per_tok", "4 experts", "found 5"});
  refused(base("mixtral"), {"num_local_experts"});
  refused(with(base("gemma2"), {{"layer_types", {"full_attention"}}}),
          {"layer_types", "4 layers", "found 1"});
  refused(
      with(base("gemma2"),
           {{"layer_types", {"full_attention", "chunked_attention", "full_attention", "full_attention"}}}),
      {"layer_types", "sliding_attention", "chunked_attention"});
  refused(with(base("mistral"), {{"sliding_window", -4}}), {"sliding_window", "-4"});
  refused(with(base("gpt_neox"), {{"rotary_pct", 0.2}}), {"even number", "found 3"});
  const json gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 65},
                     {"n_layer", 2},         {"n_head", 4},       {"n_positions", 64}};
  refused(gpt2, {"n_head", "65 columns", "found 4"});
}
