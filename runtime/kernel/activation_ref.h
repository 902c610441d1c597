#pragma once

#include "kernel/dispatch.h"

namespace pumice {

// A matrix of activations on the device: rows of floats, `stride` apart. At most `rows` rows are in use; the
// step block says how many in this step. Columns after the last, up to the next multiple of 32, are zeros:
// every kernel that writes activations writes them, so kernels that read need no guard. A view into a wider
// matrix has no such zeros.
struct ActivationRef {
  BufferRef buffer; // starts at the first row's first column
  uint32_t rows = 0;
  uint32_t rows_kind = 0; // ROWS_TOKENS or ROWS_OUTPUTS, see shaders/common/step.h
  uint32_t columns = 0;
  uint32_t stride = 0; // in floats, a multiple of 32

  uint32_t padded_columns() const { return (columns + 31) / 32 * 32; }
  // Rows that a plan's tensor has memory for where the kernels for CPU drivers read it: whole groups, of
  // which those past the last row are not used.
  uint32_t padded_rows() const { return rows < 16 ? rows : (rows + 31) / 32 * 32; }
};

// A descriptor can begin at a multiple of this many bytes on every device.
constexpr uint64_t descriptor_alignment = 256;

// What a descriptor can be bound to of a view that may begin anywhere, and how many floats come before it.
struct BoundView {
  BufferRef buffer;
  uint32_t first = 0;
};
inline BoundView bound_view(const ActivationRef& view) {
  const uint64_t before = view.buffer.offset % descriptor_alignment;
  BoundView bound = {view.buffer, static_cast<uint32_t>(before / sizeof(float))};
  bound.buffer.offset -= before;
  bound.buffer.bytes += before;
  return bound;
}

} // namespace pumice
