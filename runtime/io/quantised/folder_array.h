#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/tensor_type.h"

namespace pumice {

// An array of a Hugging Face folder's files, of whatever type.
struct FolderArray {
  std::string dtype; // safetensors' name for it
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;

  uint64_t elements() const {
    uint64_t count = 1;
    for (uint64_t size : shape) count *= size;
    return count;
  }
  bool is_float() const { return dtype == "F32" || dtype == "F16" || dtype == "BF16"; }
  // Of an array of floats.
  float float_at(uint64_t i) const {
    if (dtype == "F32") return at<float>(i);
    return dtype == "F16" ? half_to_float(at<uint16_t>(i)) : bf16_to_float(at<uint16_t>(i));
  }
  // Of an array whose elements are of this type.
  template <class T>
  T at(uint64_t i) const {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    return value;
  }
};

using FindArray = std::function<std::optional<FolderArray>(const std::string& name)>;

} // namespace pumice
