#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/files/fixtures.h"
#include "support/require.h"
#include "support/seeded_numbers.h"

// Models with a layer that predicts further tokens: a fixture's folder with such a layer beside its own.

struct MadeTensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using MadeTensors = std::map<std::string, MadeTensor>;

inline nlohmann::json read_json_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

inline MadeTensors described_tensors(const std::filesystem::path& path) {
  const nlohmann::json all = read_json_file(path);
  MadeTensors tensors;
  for (const nlohmann::json& each : all["tensors"]) {
    const auto shape = each["shape"].get<std::vector<uint64_t>>();
    const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
    const auto name = each["name"].get<std::string>();
    tensors[name] = {shape, seeded_floats(all["seed"], name, count, each["mean"], each["spread"])};
  }
  return tensors;
}

inline void write_made_folder(const std::filesystem::path& folder, const nlohmann::json& config,
                              const MadeTensors& tensors) {
  std::ofstream(folder / "config.json") << config;
  std::vector<pumice::SafetensorsFile::Entry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, "F32", tensor.shape, std::as_bytes(std::span(tensor.values))});
  require(pumice::write_safetensors(folder / "model.safetensors", entries));
}

// Of random numbers: its guesses hold by chance alone. tests/fixtures/prediction has what it gives.
inline void write_random_prediction(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path own = fixtures().folder() / "models" / name;
  nlohmann::json config = read_json_file(own / "config.json");
  config["num_nextn_predict_layers"] = 1;
  MadeTensors tensors = described_tensors(own / "weights.json");
  tensors.merge(described_tensors(fixtures().folder() / "prediction" / (name + ".json")));
  write_made_folder(folder, config, tensors);
}

// A model of one layer, and what predicts further tokens is the same layer: its guesses are what the model
// will say, but that it does not see the first token. Embeddings of 1 and -1 stay what they are under a norm.
inline void write_parrot_prediction(const std::filesystem::path& folder) {
  const std::filesystem::path own = fixtures().folder() / "models" / "glm4-moe";
  nlohmann::json config = read_json_file(own / "config.json");
  config["num_nextn_predict_layers"] = 1;
  config["num_hidden_layers"] = 1;
  config["first_k_dense_replace"] = 0;
  const std::string layer = "model.layers.1.";
  MadeTensors tensors;
  for (auto& [name, tensor] : described_tensors(own / "weights.json")) {
    if (name.starts_with(layer)) {
      tensors[name] = tensor;
      tensors["model.layers.0." + name.substr(layer.size())] = tensor;
    } else if (!name.starts_with("model.layers.")) {
      tensors[name] = tensor;
    }
  }
  for (float& value : tensors["model.embed_tokens.weight"].values) value = value < 0 ? -1.0f : 1.0f;
  MadeTensor half = {{64, 128}, std::vector<float>(64 * 128)};
  for (size_t i = 0; i < 64; ++i) half.values[i * 129] = 1;
  tensors[layer + "eh_proj.weight"] = half;
  tensors[layer + "enorm.weight"] = tensors[layer + "hnorm.weight"] = {{64}, std::vector<float>(64, 1)};
  tensors[layer + "shared_head.norm.weight"] = tensors["model.norm.weight"];
  write_made_folder(folder, config, tensors);
}
