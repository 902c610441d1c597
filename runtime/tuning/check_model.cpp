#include "tuning/check_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "step/batch.h"
#include "tuning/random_weight.h"

namespace pumice {

namespace {

constexpr uint32_t vocabulary = 256;
// With it no token is chosen by a hair, so that kernels that round choose the same.
constexpr uint32_t seed = 40;

nlohmann::json config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"max_position_embeddings", 256},
          {"vocab_size", vocabulary},
          {"rms_norm_eps", 1e-5},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

// Norms near one; matrices such that their products are about as large as what they multiply, and the last
// one larger, so that the most probable tokens stand out.
std::vector<uint16_t> halves(const WeightSpec& spec) {
  uint32_t start = seed;
  for (const char c : spec.name) start = start * 31 + static_cast<uint8_t>(c);
  std::mt19937 random(start);
  uint64_t count = 1;
  for (uint64_t size : spec.shape) count *= size;
  const bool norm = spec.shape.size() == 1;
  float scale = norm ? 0.1f : std::sqrt(3.0f / static_cast<float>(spec.shape.back()));
  if (spec.component == "head") scale *= 4;
  if (spec.component == "embedding") scale = 1;
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = float_to_half(random_value(random) * scale + (norm ? 1.0f : 0.0f));
  return values;
}

} // namespace

Status write_check_model(const std::filesystem::path& folder) {
  const std::filesystem::path config_file = folder / "config.json";
  if (!(std::ofstream(config_file) << config().dump()).flush())
    return Error{Code::io, fmt::format("{}: cannot be written", path_text(config_file))};
  PUMICE_TRY(const ModelFile file, ModelFile::open(folder));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  std::deque<std::vector<uint16_t>> values;
  std::vector<SafetensorsFile::Entry> entries;
  for (const WeightSpec& spec : definition->weights()) {
    const std::vector<uint16_t>& data = values.emplace_back(halves(spec));
    entries.push_back({spec.name, "F16", spec.shape, std::as_bytes(std::span(data))});
  }
  return write_safetensors(folder / "model.safetensors", entries);
}

std::span<const uint32_t> check_model_prompt() {
  static constexpr std::array<uint32_t, 20> prompt = {1,  17,  33, 49,  5,  200, 121, 77, 64, 250,
                                                      31, 100, 9,  180, 42, 88,  13,  66, 99, 140};
  return prompt;
}

std::span<const uint32_t> check_model_answer() {
  static constexpr std::array<uint32_t, 24> answer = {136, 156, 77,  188, 169, 169, 169, 169,
                                                      169, 12,  237, 12,  177, 226, 148, 141,
                                                      173, 13,  48,  20,  219, 198, 119, 188};
  return answer;
}

Result<std::string> check_model(const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.size.context = 64;
  PUMICE_TRY(const std::unique_ptr<Batch> batch, Batch::create(model, options));
  const std::span<const uint32_t> prompt = check_model_prompt(), answer = check_model_answer();
  SequenceRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.sampling.temperature = 0;
  request.max_tokens = static_cast<uint32_t>(answer.size());
  PUMICE_CHECK(batch->add(std::move(request)));
  std::vector<uint32_t> tokens;
  while (batch->sequences() > 0) {
    PUMICE_TRY(const std::span<const BatchToken> step, batch->step());
    for (const BatchToken& each : step) tokens.push_back(each.token);
  }
  if (std::ranges::equal(tokens, answer)) return std::string();
  return fmt::format("it generates {} instead of {}", fmt::join(tokens, ","), fmt::join(answer, ","));
}

} // namespace pumice
