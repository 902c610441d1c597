#pragma once

#include "kernel/norm/norm.h"
#include "tuning/kernel_case.h"

namespace pumice {

// A norm of rows, for checking its kernel.
struct NormCase {
  NormKind kind = NormKind::rms;
  bool bias = false; // layer norms only
  uint32_t rows = 1, columns = 0;

  std::string name() const;
  std::unique_ptr<KernelCase> make() const;
};

} // namespace pumice
