#pragma once

#include <algorithm>
#include <vector>

#include "io/tensor_type.h"
#include "io/tensor_view.h"

// Decodes the last elements of a tensor, the ones that a wrong size would put outside of its data.
inline void decode_end(const pumice::TensorView& tensor) {
  const pumice::TensorTypeInfo& type = pumice::info(tensor.type);
  const size_t blocks = std::min<size_t>(tensor.data.size() / type.block_bytes, 64);
  std::vector<float> values(blocks * type.block_size);
  pumice::decode_row(tensor.type, tensor.data.data() + tensor.data.size() - blocks * type.block_bytes,
                     values);
}
