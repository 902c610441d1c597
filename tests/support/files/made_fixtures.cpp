#include "support/files/made_fixtures.h"

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/files/fixtures.h"
#include "support/files/gguf_builder.h"
#include "support/seeded_numbers.h"

using nlohmann::json;
using pumice::GgufType;

namespace {

using Shape = std::vector<uint64_t>;

struct Weight {
  Shape shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) FAIL(path.string() << ": cannot be read");
  return json::parse(stream);
}

uint64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

std::vector<float> described_floats(uint64_t seed, const json& tensor) {
  return seeded_floats(seed, tensor["name"].get<std::string>(), count_of(tensor["shape"]), tensor["mean"],
                       tensor["spread"]);
}

Weights read_weights(const std::filesystem::path& path) {
  const json description = read_json(path);
  Weights weights;
  for (const json& tensor : description["tensors"])
    weights[tensor["name"]] = {tensor["shape"], described_floats(description["seed"], tensor)};
  return weights;
}

void write_weights(const Weights& weights, const std::filesystem::path& path) {
  std::vector<pumice::SafetensorsFile::Entry> entries;
  for (const auto& [name, weight] : weights)
    entries.push_back({name, "F32", weight.shape, std::as_bytes(std::span(weight.values))});
  const pumice::Status written = pumice::write_safetensors(path, entries);
  if (!written.ok()) FAIL(written.error().text());
}

// A projection's rows in llama.cpp's order, which rotates neighbours where the reference rotates halves.
std::vector<float> permuted(const Weight& weight, uint64_t heads) {
  const uint64_t rows = weight.shape[0], columns = weight.values.size() / rows, pairs = rows / heads / 2;
  std::vector<float> result;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t head = row / (2 * pairs), pair = row / 2 % pairs;
    const auto from =
        weight.values.begin() + static_cast<ptrdiff_t>(((head * 2 + row % 2) * pairs + pair) * columns);
    result.insert(result.end(), from, from + static_cast<ptrdiff_t>(columns));
  }
  return result;
}

// A tensor's numbers, made of those of the folder's model.
std::vector<float> copied_floats(const json& tensor, const Weights& weights) {
  if (tensor.contains("values")) return tensor["values"].get<std::vector<float>>();
  std::vector<float> all;
  for (const std::string name : tensor["from"]) {
    const Weight& weight = weights.at(name);
    const std::vector<float> part =
        tensor.contains("permuted_heads") ? permuted(weight, tensor["permuted_heads"]) : weight.values;
    for (const float value : part) all.push_back(value + tensor.value("plus", 0.0f));
  }
  return all;
}

SeededBlock read_block(const json& description) {
  SeededBlock block{description["elements"], description["bytes"], {}};
  for (const json& field : description["fields"]) block.fields.push_back({field[0], field[1], field[2]});
  return block;
}

std::vector<std::byte> tensor_bytes(const json& file, const json& tensor, const Weights& weights) {
  const std::string type = tensor["type"];
  if (type != "F32") {
    const SeededBlock block = read_block(file["blocks"][type]);
    return seeded_blocks(file["seed"], tensor["name"].get<std::string>(),
                         count_of(tensor["shape"]) / block.elements, block);
  }
  const std::vector<float> values =
      tensor.contains("spread") ? described_floats(file["seed"], tensor) : copied_floats(tensor, weights);
  REQUIRE(values.size() == count_of(tensor["shape"]));
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

void add_pair(GgufBuilder& builder, const std::string& key, const std::string& type, const json& value) {
  if (type == "string") {
    builder.string(key, value.get<std::string>());
  } else if (type == "uint32") {
    builder.u32(key, value);
  } else if (type == "float32") {
    builder.pair(key, GgufType::f32, value.get<float>());
  } else if (type == "bool") {
    builder.pair(key, GgufType::boolean, static_cast<uint8_t>(value.get<bool>()));
  } else if (type == "array" && value[0].is_boolean()) {
    const std::vector<bool> bits = value;
    builder.numbers(key, GgufType::boolean, std::vector<uint8_t>(bits.begin(), bits.end()));
  } else if (type == "array" && value[0].is_number_integer()) {
    builder.numbers(key, GgufType::i32, value.get<std::vector<int32_t>>());
  } else {
    FAIL(key << ": a pair of type " << type);
  }
}

void write_gguf(const json& description, const Weights& weights, const std::filesystem::path& path) {
  GgufBuilder builder;
  for (const json& pair : description["metadata"]) add_pair(builder, pair[0], pair[1], pair[2]);
  ByteWriter data;
  for (const json& tensor : description["tensors"]) {
    const Shape shape = tensor["shape"];
    const std::string type = tensor["type"];
    const uint32_t number = type == "F32" ? 0 : description["blocks"][type]["number"].get<uint32_t>();
    builder.tensor({tensor["name"], {shape.rbegin(), shape.rend()}, number, data.size()});
    data.raw(tensor_bytes(description, tensor, weights)).pad_to(builder.alignment);
  }
  ByteWriter file;
  file.raw(builder.header()).pad_to(builder.alignment).raw(data.bytes());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.bytes().data()), static_cast<std::streamsize>(file.size()));
}

} // namespace

void make_model_fixture(const std::filesystem::path& description, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(description))
    std::filesystem::copy_file(entry.path(), folder / entry.path().filename());
  const Weights weights = read_weights(description / "weights.json");
  write_weights(weights, folder / "model.safetensors");
  const std::filesystem::path gguf_form = description / "gguf.json";
  if (std::filesystem::exists(gguf_form)) write_gguf(read_json(gguf_form), weights, folder / "model.gguf");
}

void make_gguf_fixture(const std::filesystem::path& description, const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::path expected = description;
  std::filesystem::copy_file(expected.replace_extension(".expected.safetensors"), expected_of(file));
  write_gguf(read_json(description), {}, file);
}
