#pragma once

#include "io/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// A named tensor in a file. It owns no data.
struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<uint64_t> shape; // outermost first, row-major, as Hugging Face has it; GGUF's order is reversed
  std::span<const std::byte>
      data; // in the mapped file; safetensors may put it at any address, aligned or not
};

} // namespace pumice
