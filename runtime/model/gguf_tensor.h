#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/weight_view.h"

namespace pumice {

// One tensor of a model's GGUF form, made of tensors of the file that is converted.
struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;   // outermost first
  std::vector<WeightView> parts; // stacked along the first dimension
  // If above 0, the number of heads that the rows consist of. In each head, the rows of rotary pairs are
  // reordered from two halves to neighbours, as llama.cpp expects for "llama": new row 2i is old row i, new
  // row 2i + 1 is old row i + rotary_dim / 2.
  uint32_t rotary_heads = 0;
  uint32_t rotary_dim = 0; // rows of a head that are rotated, its first ones; 0: all of them
  // Every element becomes (element + offset) * scale: Gemma's norms are 1 + weight, and where GGUF has no key
  // for how scores are scaled, the queries' weights take it.
  float offset = 0;
  float scale = 1;
  std::vector<float> part_scales; // if not empty: a factor for each part besides
  bool negative_exp = false;      // every element becomes -exp(element) instead: logarithms of decays
  // If above 0: heads of `tiled_dim` columns are in this many groups of neighbours, and the first heads of
  // all groups come first, then the second ones, as llama.cpp expects for Qwen 3.5.
  uint32_t tiled_groups = 0;
  uint32_t tiled_dim = 0;
  std::vector<float>
      values; // in place of `parts`: numbers that are in no tensor of the file, such as rope_freqs
};

} // namespace pumice
