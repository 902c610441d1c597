#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "io/model_file.h"
#include "io/tensor_type.h"

// Writes a model.bin of CTranslate2.
class Ctranslate2Builder {
public:
  enum class Weights { f32, f16, int8 };

  explicit Ctranslate2Builder(Weights weights) : weights_(weights) {}

  template <class T>
  void number(const std::string& name, T value) {
    add(name, {}, type_of(value), bytes_of(std::vector<T>{value}));
  }
  void floats(const std::string& name, const std::vector<uint64_t>& shape, const std::vector<float>& values) {
    add(name, shape, 0, bytes_of(values));
  }
  // A weight, in the type that was asked for.
  void weight(const std::string& name, const std::vector<uint64_t>& shape, const std::vector<float>& values) {
    if (weights_ == Weights::f16) {
      std::vector<uint16_t> halves;
      for (float value : values) halves.push_back(pumice::float_to_half(value));
      add(name, shape, 4, bytes_of(halves));
      return;
    }
    if (weights_ == Weights::f32 || shape.size() < 2) {
      floats(name, shape, values);
      return;
    }
    const size_t columns = shape[1];
    std::vector<int8_t> whole;
    std::vector<float> scales;
    for (size_t row = 0; row < shape[0]; ++row) {
      float largest = 0;
      for (size_t i = 0; i < columns; ++i) largest = std::max(largest, std::abs(values[row * columns + i]));
      scales.push_back(largest > 0 ? 127 / largest : 1);
      for (size_t i = 0; i < columns; ++i) {
        whole.push_back(static_cast<int8_t>(std::lround(values[row * columns + i] * scales.back())));
      }
    }
    add(name, shape, 1, bytes_of(whole));
    floats(name + "_scale", {shape[0]}, scales);
  }
  void alias(const std::string& name, const std::string& of) {
    aliases_ += text(name) + text(of), ++alias_count_;
  }

  std::string build(const std::string& kind = "TransformerSpec", uint32_t version = 6) const {
    return u32(version) + text(kind) + u32(7) + u32(count_) + arrays_ + u32(alias_count_) + aliases_;
  }

private:
  static uint8_t type_of(float) { return 0; }
  static uint8_t type_of(int8_t) { return 1; }
  static uint8_t type_of(int16_t) { return 2; }
  static uint8_t type_of(int32_t) { return 3; }
  template <class T>
  static std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }
  static std::string u32(uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }
  static std::string text(const std::string& value) {
    const auto length = static_cast<uint16_t>(value.size() + 1);
    return std::string(reinterpret_cast<const char*>(&length), 2) + value + '\0';
  }
  void add(const std::string& name, const std::vector<uint64_t>& shape, uint8_t type,
           const std::string& data) {
    arrays_ += text(name) + static_cast<char>(shape.size());
    for (uint64_t size : shape) arrays_ += u32(static_cast<uint32_t>(size));
    arrays_ += static_cast<char>(type) + u32(static_cast<uint32_t>(data.size())) + data;
    ++count_;
  }

  Weights weights_;
  std::string arrays_, aliases_;
  uint32_t count_ = 0, alias_count_ = 0;
};
