// Quantised folders of Hugging Face as whole models: beside a folder of the same numbers in F32.
#include <cmath>
#include <deque>
#include <fstream>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "io/model_file.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

class Folder {
public:
  template <class T>
  void add(std::string name, std::string dtype, std::vector<uint64_t> shape, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const auto& own = data_.emplace_back(bytes.begin(), bytes.end());
    entries_.push_back({std::move(name), std::move(dtype), std::move(shape), own});
  }
  void add(const SafetensorsFile::Entry& entry) { entries_.push_back(entry); }

  void write(const std::filesystem::path& folder, nlohmann::json config) const {
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "config.json") << config;
    REQUIRE(write_safetensors(folder / "model.safetensors", entries_).ok());
  }

private:
  std::deque<std::vector<std::byte>> data_;
  std::vector<SafetensorsFile::Entry> entries_;
};

// A matrix of random FP8 codes with a scale for each 32 rows and 32 columns, and its numbers.
std::vector<float> add_fp8(const std::string& name, uint64_t rows, uint64_t columns, std::mt19937& random,
                           Folder& folder) {
  std::vector<uint8_t> codes(rows * columns);
  for (uint8_t& code : codes) code = static_cast<uint8_t>((random() % 0x70) | (random() & 128));
  const uint64_t across = (columns + 31) / 32, down = (rows + 31) / 32;
  std::vector<float> scales(across * down), values;
  for (float& scale : scales) scale = static_cast<float>(random() % 100 + 50) * 1e-5f;
  for (uint64_t i = 0; i < codes.size(); ++i) {
    const int exponent = codes[i] >> 3 & 15, mantissa = codes[i] & 7;
    const double size = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
    const float scale = scales[i / columns / 32 * across + i % columns / 32];
    values.push_back(static_cast<float>(codes[i] & 128 ? -size : size) * scale);
  }
  folder.add(name, "F8_E4M3", {rows, columns}, codes);
  folder.add(name + "_scale_inv", "F32", {down, across}, scales);
  return values;
}

// The same of four bits with zero points, as GPTQ has it, of groups of 32 columns.
std::vector<float> add_gptq(const std::string& name, uint64_t rows, uint64_t columns, std::mt19937& random,
                            Folder& folder) {
  const uint64_t groups = columns / 32;
  std::vector<uint32_t> words(columns / 8 * rows), zeros(groups * rows / 8);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  for (uint32_t& word : zeros) word = (static_cast<uint32_t>(random()) & 0x11111111u) | 0x66666666u;
  std::vector<uint16_t> scales(groups * rows);
  for (uint16_t& scale : scales) scale = float_to_half(static_cast<float>(random() % 100 + 50) * 2e-4f);
  std::vector<float> values;
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      const uint64_t group = column / 32;
      const int code = static_cast<int>(words[column / 8 * rows + row] >> column % 8 * 4 & 15);
      const int zero = static_cast<int>(zeros[(group * rows + row) / 8] >> row % 8 * 4 & 15) + 1;
      values.push_back(static_cast<float>(code - zero) * half_to_float(scales[group * rows + row]));
    }
  }
  const std::string prefix = name.substr(0, name.size() - 6);
  folder.add(prefix + "qweight", "I32", {columns / 8, rows}, words);
  folder.add(prefix + "qzeros", "I32", {groups, rows / 8}, zeros);
  folder.add(prefix + "scales", "F16", {groups, rows}, scales);
  return values;
}

// Four rows in a byte, as BitNet has them.
std::vector<float> add_ternary(const std::string& name, uint64_t rows, uint64_t columns, std::mt19937& random,
                               Folder& folder) {
  std::vector<uint8_t> codes(rows / 4 * columns);
  for (uint8_t& four : codes) four = static_cast<uint8_t>(random()) & 0b10'01'10'01;
  const float scale = 0.0625f;
  std::vector<float> values;
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      const int code = codes[row % (rows / 4) * columns + column] >> row / (rows / 4) * 2 & 3;
      values.push_back(scale * static_cast<float>(code - 1));
    }
  }
  folder.add(name, "U8", {rows / 4, columns}, codes);
  folder.add(name + "_scale", "F32", {1}, std::vector<float>{scale});
  return values;
}

struct Kind {
  TensorType type;
  decltype(&add_fp8) make;
  nlohmann::json settings;
};

} // namespace

TEST_CASE("quantised folders compute what a folder of the same numbers does") {
  const auto fixture = fixtures().model("llama-gqa");
  const auto file = SafetensorsFile::open(fixture / "model.safetensors");
  REQUIRE(file.ok());
  nlohmann::json config = nlohmann::json::parse(std::ifstream(fixture / "config.json"));
  const Kind kinds[] = {
      {TensorType::f8_e4m3, add_fp8, {{"quant_method", "fp8"}, {"weight_block_size", {32, 32}}}},
      {TensorType::uint4, add_gptq, {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}},
      {TensorType::int4, add_ternary, {{"quant_method", "bitnet"}, {"linear_class", "autobitlinear"}}}};
  for (const Kind& kind : kinds) {
    CAPTURE(kind.settings.dump());
    Folder quantised, plain;
    std::mt19937 random(3);
    for (const SafetensorsFile::Entry& entry : file->entries) {
      const bool matrix = entry.name.find("_proj.") != std::string::npos && entry.shape.back() % 32 == 0;
      if (!matrix) {
        quantised.add(entry);
        plain.add(entry);
        continue;
      }
      plain.add(entry.name, "F32", entry.shape,
                kind.make(entry.name, entry.shape[0], entry.shape[1], random, quantised));
    }
    const TemporaryFolder temporary;
    plain.write(temporary.path() / "plain", config);
    nlohmann::json with = config;
    with["quantization_config"] = kind.settings;
    quantised.write(temporary.path() / "quantised", with);
    const auto opened = ModelFile::open(temporary.path() / "quantised");
    REQUIRE_MESSAGE(opened.ok(), opened.error().text());
    const TensorView* tensor = opened->find("model.layers.0.mlp.up_proj.weight");
    REQUIRE(tensor);
    CHECK(tensor->type == kind.type);
    CHECK(opened->unreadable().empty());
    const std::vector<uint32_t> ids = {5, 7, 30, 8, 41, 19, 26, 13, 9};
    const std::vector<float> expected = forward(load_model(temporary.path() / "plain"), ids, 128);
    CHECK(relative_rms(forward(load_model(temporary.path() / "quantised"), ids, 128), expected) <= 1e-4);
    CHECK(relative_rms(forward(load_model(temporary.path() / "quantised"), ids, 1), expected) <= 1e-4);
  }
}
