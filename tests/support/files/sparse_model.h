#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "model/model.h"
#include "support/files/temporary_folder.h"

// A Hugging Face folder of a model whose weights are zeros but for the rows that a test writes. The file has
// holes where its zeros are, so that it takes no room.
class SparseModel {
public:
  // The tensors named in `types` have these, the others are F32.
  SparseModel(const nlohmann::json& config, const std::map<std::string, std::string>& types = {}) {
    folder_.write("config.json", config.dump());
    const auto alone = pumice::ModelFile::open(folder_.path());
    if (!alone.ok()) FAIL(alone.error().text());
    const auto definition = pumice::open_model_definition(*alone);
    if (!definition.ok()) FAIL(definition.error().text());
    nlohmann::json header = nlohmann::json::object();
    uint64_t end = 0;
    for (const pumice::WeightSpec& spec : (*definition)->weights()) {
      const std::string type = types.contains(spec.name) ? types.at(spec.name) : "F32";
      const uint64_t row = spec.shape.back() * (type == "F32" ? 4 : 2);
      const uint64_t rows =
          std::accumulate(spec.shape.begin(), spec.shape.end() - 1, uint64_t{1}, std::multiplies<uint64_t>());
      header[spec.name] = {{"dtype", type}, {"shape", spec.shape}, {"data_offsets", {end, end + rows * row}}};
      places_[spec.name] = {end, row};
      end += rows * row;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    data_ = sizeof length + length;
    std::string start(reinterpret_cast<const char*>(&length), sizeof length);
    file_ = folder_.write("model.safetensors", start + text);
    std::filesystem::resize_file(file_, data_ + end);
  }

  // Fills a row with numbers of its own, and returns its bytes.
  std::vector<std::byte> write_row(const std::string& tensor, uint64_t row) {
    const auto& [begin, bytes] = places_.at(tensor);
    std::vector<std::byte> values(bytes);
    for (uint64_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(1 + (row * 31 + i / 4 * 7) % 61);
    write(data_ + begin + row * bytes, values);
    return values;
  }
  // Fills a row of an F32 tensor with one number.
  void write_numbers(const std::string& tensor, uint64_t row, float number) {
    const auto& [begin, bytes] = places_.at(tensor);
    const std::vector<float> values(bytes / sizeof number, number);
    write(data_ + begin + row * bytes, std::as_bytes(std::span(values)));
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

  // Model::plan of it.
  pumice::Result<std::shared_ptr<const pumice::Model>> plan(const pumice::DeviceContext& context) const {
    PUMICE_TRY(pumice::ModelFile file, pumice::ModelFile::open(folder_.path()));
    return pumice::Model::plan(std::move(file), context);
  }

private:
  void write(uint64_t at, std::span<const std::byte> bytes) {
    std::fstream file(file_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file.good());
  }

  struct Place {
    uint64_t begin, row_bytes;
  };
  TemporaryFolder folder_;
  std::filesystem::path file_;
  uint64_t data_ = 0;
  std::map<std::string, Place> places_;
};
