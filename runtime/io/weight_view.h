#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "io/tensor_view.h"

namespace pumice {

// A tensor of a file, or a slice of one, as the matrix [rows, columns] that an operation needs; each row
// holds the weights of one output. The tensor is treated as a matrix whose columns are its last dimension, or
// for convolutions all dimensions except the first. A tensor of one dimension has one column. A slice
// consists of runs of neighbouring rows, so that fused projections can be taken apart, interleaved ones too.
struct WeightView {
  const TensorView* tensor = nullptr;
  uint64_t rows = 0;
  uint64_t columns = 0;
  bool transposed = false;     // the tensor is stored as [columns, rows]; only for types without blocks
  uint64_t first = 0;          // the tensor's row (its column if transposed) that is row 0 here
  uint64_t run = 1;            // rows of one run, neighbours in the tensor
  uint64_t step = 1;           // rows from the start of one run to the start of the next
  uint64_t tensor_columns = 1; // columns of the tensor as a matrix
  uint64_t first_column = 0;   // if transposed: the tensor's row that is column 0 here

  static WeightView whole(const TensorView& tensor) {
    uint64_t rows = 1;
    for (uint64_t size : tensor.shape) rows *= size;
    const uint64_t columns = tensor.shape.size() < 2 ? 1 : tensor.shape.back();
    rows = columns ? rows / columns : 0;
    return {&tensor, rows, columns, false, 0, rows ? rows : 1, rows, columns};
  }
  // Rows along the first dimension; all the other dimensions together are the columns.
  static WeightView flat(const TensorView& tensor) {
    const uint64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    uint64_t columns = 1;
    for (size_t i = 1; i < tensor.shape.size(); ++i) columns *= tensor.shape[i];
    return {&tensor, rows, columns, false, 0, rows ? rows : 1, rows, columns};
  }
  static WeightView transpose(const TensorView& tensor) {
    const WeightView view = whole(tensor);
    return {&tensor, view.columns, view.rows, true, 0, view.columns, view.columns, view.columns};
  }
  // Rows begin to begin + count - 1.
  WeightView slice(uint64_t begin, uint64_t count) const { return slice(begin, count, count, count); }
  // `count` rows in runs of `size` rows. The first run starts at `begin`, each next one `stride` rows later.
  // Only for views made by whole() or transpose().
  WeightView slice(uint64_t begin, uint64_t count, uint64_t size, uint64_t stride) const {
    WeightView view = *this;
    view.first += begin;
    view.rows = count;
    view.run = size ? size : 1;
    view.step = stride;
    return view;
  }

  TensorType type() const { return tensor->type; }
  uint64_t source_row(uint64_t row) const { return first + row / run * step + row % run; }
  // Bytes from one row of the tensor to the next. If the view is transposed, that is from one column of the
  // view to the next.
  uint64_t tensor_row_bytes() const { return row_bytes(tensor->type, tensor_columns); }

  // Whether a row's bytes lie in one place, one row after the other.
  bool in_rows() const { return !transposed && tensor->in_blocks(); }

  auto operator<=>(const WeightView&) const = default;
};

// The elements of a vector, or of a matrix row by row, as floats, padded with zeros to a multiple of 8.
std::vector<float> decode_vector(const WeightView& weight);

} // namespace pumice
