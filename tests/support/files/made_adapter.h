#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/path.h"
#include "io/formats/gguf_writer.h"
#include "io/formats/safetensors.h"
#include "io/model_file.h"
#include "io/weight_view.h"
#include "support/require.h"

// Adapters of random numbers, and models with such adapters merged into their weights.

struct MadeAdapter {
  struct Pair {
    std::string module; // of the model, without ".weight"
    uint32_t rank = 0, rows = 0, columns = 0;
    std::vector<float> down, up;
  };
  std::vector<Pair> pairs;
  uint32_t rank = 0; // in the configuration
  float alpha = 8;
  pumice::TensorType numbers = pumice::TensorType::f32;           // in the file
  bool stabilized = false;                                        // use_rslora
  nlohmann::ordered_json more = nlohmann::ordered_json::object(); // of the configuration

  double scaling() const { return alpha / (stabilized ? std::sqrt(double{1} * rank) : rank); }
};

// For those matrices of a Hugging Face folder whose names end with one of these before ".weight".
// `transposed`: they are stored as [columns, rows].
inline MadeAdapter make_adapter(const pumice::ModelFile& file, const std::vector<std::string>& ends,
                                uint32_t rank, uint32_t seed, bool transposed = false) {
  MadeAdapter adapter;
  adapter.rank = rank;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (const pumice::TensorView& tensor : file.tensors()) {
    if (tensor.shape.size() != 2 || !tensor.name.ends_with(".weight")) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    if (std::ranges::none_of(ends, [&](const std::string& end) { return module.ends_with(end); })) continue;
    MadeAdapter::Pair pair;
    pair.module = module;
    pair.rank = rank;
    pair.rows = static_cast<uint32_t>(tensor.shape[transposed ? 1 : 0]);
    pair.columns = static_cast<uint32_t>(tensor.shape[transposed ? 0 : 1]);
    pair.down.resize(size_t{rank} * pair.columns);
    pair.up.resize(size_t{rank} * pair.rows);
    for (float& value : pair.down) value = normal(random) / std::sqrt(static_cast<float>(pair.columns));
    for (float& value : pair.up) value = 0.2f * normal(random);
    adapter.pairs.push_back(std::move(pair));
  }
  return adapter;
}

// The same with numbers of 16 bits.
inline MadeAdapter rounded(MadeAdapter adapter, pumice::TensorType numbers) {
  adapter.numbers = numbers;
  const bool halves = numbers == pumice::TensorType::f16;
  for (MadeAdapter::Pair& pair : adapter.pairs) {
    for (std::vector<float>* values : {&pair.down, &pair.up}) {
      for (float& value : *values) {
        value = halves ? pumice::half_to_float(pumice::float_to_half(value))
                       : pumice::bf16_to_float(pumice::float_to_bf16(value));
      }
    }
  }
  return adapter;
}

// Numbers as a file has them.
inline std::vector<std::byte> numbers_as(pumice::TensorType type, const std::vector<float>& values) {
  const std::span<const std::byte> plain = std::as_bytes(std::span(values));
  if (type == pumice::TensorType::f32) return {plain.begin(), plain.end()};
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(type == pumice::TensorType::f16 ? pumice::float_to_half(value)
                                                   : pumice::float_to_bf16(value));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(bits));
  return {bytes.begin(), bytes.end()};
}

// As Hugging Face's PEFT saves it.
inline void write_peft(const MadeAdapter& adapter, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},         {"task_type", "CAUSAL_LM"},         {"r", adapter.rank},
      {"lora_alpha", adapter.alpha}, {"use_rslora", adapter.stabilized}, {"bias", "none"},
      {"modules_to_save", nullptr},  {"target_modules", {"q_proj"}}};
  if (adapter.more.is_object()) config.update(adapter.more);
  std::ofstream(folder / "adapter_config.json") << config.dump();
  std::vector<pumice::SafetensorsFile::Entry> entries;
  std::deque<std::vector<std::byte>> data;
  const std::string type(pumice::info(adapter.numbers).safetensors_name);
  const auto add = [&](const std::string& name, uint64_t rows, uint64_t columns, const auto& values) {
    entries.push_back({name, type, {rows, columns}, data.emplace_back(numbers_as(adapter.numbers, values))});
  };
  for (const MadeAdapter::Pair& pair : adapter.pairs) {
    const std::string name = "base_model.model." + pair.module;
    add(name + ".lora_A.weight", pair.rank, pair.columns, pair.down);
    add(name + ".lora_B.weight", pair.rows, pair.rank, pair.up);
  }
  require(pumice::write_safetensors(folder / "adapter_model.safetensors", entries));
}

// As llama.cpp has it. `name_of`: a module's name there.
template <class NameOf>
void write_gguf_adapter(const MadeAdapter& adapter, const std::filesystem::path& path,
                        const NameOf& name_of) {
  pumice::GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("general.type", "adapter");
  writer.add("adapter.type", "lora");
  writer.add("adapter.lora.alpha", adapter.alpha);
  for (const MadeAdapter::Pair& pair : adapter.pairs) {
    const std::string name = name_of(pair.module) + ".weight";
    writer.add_tensor(name + ".lora_a", std::vector<uint64_t>{pair.rank, pair.columns}, adapter.numbers);
    writer.add_tensor(name + ".lora_b", std::vector<uint64_t>{pair.rows, pair.rank}, adapter.numbers);
  }
  require(writer.open(path));
  for (const MadeAdapter::Pair& pair : adapter.pairs) {
    require(writer.write(numbers_as(adapter.numbers, pair.down)));
    require(writer.write(numbers_as(adapter.numbers, pair.up)));
  }
  require(writer.finish());
}

// A folder of a model with `scale` times the adapter added to its weights, in 64 bits.
inline void write_merged(const pumice::ModelFile& file, const MadeAdapter& adapter, double scale,
                         const std::filesystem::path& folder, bool transposed = false) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(pumice::path_of(file.path()) / "config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::deque<std::vector<float>> values;
  std::vector<pumice::SafetensorsFile::Entry> entries;
  for (const pumice::TensorView& tensor : file.tensors()) {
    std::vector<float>& data = values.emplace_back(pumice::decode_vector(pumice::WeightView::whole(tensor)));
    uint64_t count = 1;
    for (uint64_t size : tensor.shape) count *= size;
    data.resize(count);
    for (const MadeAdapter::Pair& pair : adapter.pairs) {
      if (pair.module + ".weight" != tensor.name) continue;
      for (size_t row = 0; row < pair.rows; ++row) {
        for (size_t column = 0; column < pair.columns; ++column) {
          double sum = 0;
          for (size_t r = 0; r < pair.rank; ++r)
            sum += double{pair.up[row * pair.rank + r]} * pair.down[r * pair.columns + column];
          float& weight = data[transposed ? column * pair.rows + row : row * pair.columns + column];
          weight = static_cast<float>(weight + scale * adapter.scaling() * sum);
        }
      }
    }
    entries.push_back({tensor.name, "F32", tensor.shape, std::as_bytes(std::span(data))});
  }
  require(pumice::write_safetensors(folder / "model.safetensors", entries));
}
