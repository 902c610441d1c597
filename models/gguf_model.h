#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/weight_view.h"

namespace pumice {

// One tensor of the GGUF twin of a model: (weights + offset) * scale, under llama.cpp's name and in its
// layout.
struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;   // outermost first
  std::vector<WeightView> parts; // stacked along the first dimension
  // Not 0: the rows are those of so many heads, and of each head's first rotary_dim (0: all) row 2i comes
  // from i and row 2i + 1 from i + half of them.
  uint32_t rotary_heads = 0;
  uint32_t rotary_dim = 0;
  float offset = 0;
  float scale = 1;
  std::vector<float> values; // instead of parts: numbers that are in no tensor, such as rope_freqs
};

// A model as llama.cpp's GGUF has it, but for the vocabulary.
struct GgufModel {
  std::string architecture;
  nlohmann::json metadata; // keys as the file has them: "llama.block_count"
  std::vector<GgufTensor> tensors;
};

} // namespace pumice
