#pragma once

#include <span>
#include <vector>

#include "kernel/products/weights.h"

// x * weight^T for rows of x that lie weight.columns() apart, in 64 bits: [rows, weight.rows()].
inline std::vector<double> matmul_reference(std::span<const float> x, const TestWeight& weight) {
  const size_t k = weight.columns(), n = weight.rows(), rows = x.size() / k;
  std::vector<double> out(rows * n);
  for (uint32_t column = 0; column < n; ++column) {
    const std::vector<float> w = weight.decoded(column);
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += double{x[row * k + i]} * w[i];
      out[row * n + column] = sum;
    }
  }
  return out;
}
