#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "generate/forced_pass.h"
#include "io/formats/safetensors.h"

// What a fixture's expected.safetensors holds: a reference's inputs and its answers.
struct Answers {
  std::map<std::string, std::vector<uint64_t>> shapes;
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int64_t>> integers;

  explicit Answers(const std::filesystem::path& path) {
    const auto file = pumice::SafetensorsFile::open(path);
    if (!file.ok()) FAIL(file.error().text());
    for (const pumice::SafetensorsFile::Entry& entry : file->entries) {
      shapes[entry.name] = entry.shape;
      if (entry.dtype == "F32") {
        floats[entry.name] = *pumice::SafetensorsFile::floats(entry);
      } else {
        integers[entry.name] = *pumice::SafetensorsFile::integers(entry);
      }
    }
  }

  // Row `row` of a tensor of whatever shape.
  std::span<const float> row(const std::string& name, size_t row) const {
    const std::vector<float>& all = floats.at(name);
    const size_t size = all.size() / shapes.at(name)[0];
    return std::span(all).subspan(row * size, size);
  }
  std::vector<uint32_t> ids(const std::string& name, size_t row) const {
    const auto found = integers.find(name);
    if (found == integers.end()) return {};
    const size_t columns = shapes.at(name)[1];
    const auto first = found->second.begin() + static_cast<ptrdiff_t>(row * columns);
    return {first, first + static_cast<ptrdiff_t>(columns)};
  }
  // What a model of a decoder alone reads.
  std::vector<pumice::ForcedInput> sequences() const {
    std::vector<pumice::ForcedInput> sequences(shapes.at("input_ids")[0]);
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].tokens = ids("input_ids", i);
    return sequences;
  }
  // What an encoder reads, without padding, and its decoder, where it has one. `picture_rows`: tokens that
  // stand for the rows of a picture, before those of a text.
  std::vector<pumice::ForcedInput> inputs(uint32_t picture_rows = 0) const {
    std::vector<pumice::ForcedInput> inputs;
    const char* names[] = {"input_ids", "pixel_values", "input_features", "input_values"};
    for (const char* name : names) {
      if (!shapes.contains(name)) continue;
      inputs.resize(shapes.at(name)[0]);
      for (size_t i = 0; i < inputs.size(); ++i) {
        pumice::EncoderInput& input = inputs[i].input;
        if (floats.contains(name)) input.values.assign(row(name, i).begin(), row(name, i).end());
        const std::vector<uint32_t> mask = ids("attention_mask", i);
        input.tokens = ids("input_ids", i);
        input.token_types = ids("token_type_ids", i);
        const auto kept = static_cast<size_t>(std::ranges::count(mask, 1u));
        if (!mask.empty()) input.tokens.resize(kept);
        if (picture_rows > 0) {
          input.values.assign(row("pixel_values", i).begin(), row("pixel_values", i).end());
          input.tokens.erase(input.tokens.begin(), input.tokens.begin() + picture_rows);
        }
        if (!input.token_types.empty()) input.token_types.resize(kept);
        inputs[i].tokens = ids("decoder_input_ids", i);
      }
      return inputs;
    }
    return inputs;
  }
};
