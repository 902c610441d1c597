#pragma once

#include <memory>

#include "io/quantised/folder_array.h"
#include "io/tensor_view.h"

namespace pumice {

// A matrix whose weights are -1, 0 or 1 times one scale (BitNet b1.58, Ma et al. 2024), of the smallest type
// that holds it without a loss.
struct TernaryMatrix {
  TensorType type;
  std::vector<uint64_t> shape;
  std::shared_ptr<const BlockSource> blocks;
};

// `codes`: of U8 [rows / 4, columns], each with four rows, of which the first is in the lowest bits and the
// next a quarter of all rows further down; they are one more than their weights.
TernaryMatrix packed_ternary(const FolderArray& codes, float scale);

// Of floats that are rounded to it: the scale is the mean of their sizes.
TernaryMatrix rounded_ternary(const FolderArray& weights);

} // namespace pumice
