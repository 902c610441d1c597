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
  std::vector<uint64_t> shape;     // outermost first, as in Hugging Face; GGUF files store the reverse
  std::span<const std::byte> data; // in the mapped file; need not be aligned
};

} // namespace pumice
