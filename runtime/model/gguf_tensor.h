#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/weight_view.h"

namespace pumice {

// One tensor of a model's GGUF twin, made of tensors of the file that is converted.
struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;   // outermost first
  std::vector<WeightView> parts; // stacked along the first dimension
  // Above 0: the rows are so many heads, and each head's go from half-split rotary pairs to neighbouring
  // ones, as llama.cpp wants them of "llama": row 2i is row i, row 2i + 1 is row i + rotary_dim / 2.
  uint32_t rotary_heads = 0;
  uint32_t rotary_dim = 0; // the first rows of a head, which turn; 0: all of them
  // Every element becomes (element + offset) * scale: Gemma's norms are 1 + weight, and where GGUF has no key
  // for how scores are scaled, the queries' weights take it.
  float offset = 0;
  float scale = 1;
  std::vector<float> values; // in place of parts: numbers that are in no tensor, such as rope_freqs
};

} // namespace pumice
