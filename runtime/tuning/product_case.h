#pragma once

#include "io/tensor_type.h"
#include "tuning/kernel_case.h"

namespace pumice {

// A product of matrices, for checking its kernels.
struct ProductCase {
  enum class Kind {
    plain,
    long_sums, // of numbers of one sign, so that sums which are kept in too few bits are far off
    gated,     // by the rectified results of another matrix
    bias,
    bias_residual, // with a bias, and the input added: square matrices only
  };
  Kind kind = Kind::plain;
  TensorType type = TensorType::f32;
  uint32_t rows = 1, results = 0, columns = 0;
  uint32_t copies = 1; // of the matrix, side by side

  std::string name() const;
  std::unique_ptr<KernelCase> make() const;
};

} // namespace pumice
