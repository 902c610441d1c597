#pragma once

#include <vector>

#include "io/tensor_view.h"

namespace pumice {

// All numbers of a tensor that has its blocks one after the other.
inline std::vector<float> tensor_floats(const TensorView& tensor) {
  uint64_t count = 1;
  for (const uint64_t size : tensor.shape) count *= size;
  std::vector<float> values(count);
  decode_row(tensor.type, tensor.data.data(), values);
  return values;
}

} // namespace pumice
