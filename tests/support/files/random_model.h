#pragma once

#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "model/architecture.h"
#include "support/files/temporary_folder.h"

// A Hugging Face folder of a model that is as `config` says, with random weights and no tokenizer.
inline void write_random_model(const TemporaryFolder& folder, const nlohmann::json& config) {
  const std::string text = config.dump();
  folder.write("config.json", text);
  const auto config_file = pumice::ModelFile::open(folder.path());
  REQUIRE(config_file.ok());
  const auto definition = pumice::open_model_definition(*config_file);
  REQUIRE(definition.ok());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::deque<std::vector<float>> values;
  std::vector<pumice::SafetensorsFile::Entry> entries;
  for (const pumice::WeightSpec& spec : (*definition)->weights()) {
    uint64_t count = 1;
    for (uint64_t size : spec.shape) count *= size;
    const bool norm = spec.shape.size() == 1;
    const float scale = norm ? 0.1f : 1.0f / std::sqrt(static_cast<float>(spec.shape.back()));
    std::vector<float>& data = values.emplace_back(count);
    for (float& value : data) value = normal(random) * scale + (norm ? 1.0f : 0.0f);
    entries.push_back({spec.name, "F32", spec.shape, std::as_bytes(std::span(data))});
  }
  REQUIRE(pumice::write_safetensors(folder.path() / "model.safetensors", entries).ok());
}
