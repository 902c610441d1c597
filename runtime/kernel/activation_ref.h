#pragma once

#include "kernel/dispatch.h"

namespace pumice {

// A matrix of activations on the device: rows of floats, `stride` apart, of which at most `rows` are in use;
// how many just now the step block says. A row's columns up to the next multiple of 32 are zeros, which every
// kernel that writes activations sees to and which spares every kernel that reads them a guard (not so for a
// view into a wider matrix).
struct ActivationRef {
  BufferRef buffer; // starts at the first row's first column
  uint32_t rows = 0;
  uint32_t rows_kind = 0; // ROWS_TOKENS or ROWS_OUTPUTS, see shaders/common/step.h
  uint32_t columns = 0;
  uint32_t stride = 0; // in floats, a multiple of 32

  uint32_t padded_columns() const { return (columns + 31) / 32 * 32; }
};

} // namespace pumice
