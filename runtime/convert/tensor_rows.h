#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/progress.h"
#include "base/result.h"
#include "io/tensor_type.h"
#include "model/gguf_tensor.h"

namespace pumice {

// Reads the values of a tensor that is to be written to a GGUF file, a few rows at a time.
class TensorRows {
public:
  // Error: invalid_file if the tensor's parts do not have its shape.
  static Result<TensorRows> of(const GgufTensor& tensor);

  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }

  // Reads rows first to first + count - 1, one after the other, as floats.
  void read(uint64_t first, uint64_t count, float* out) const;

private:
  explicit TensorRows(const GgufTensor& tensor) : tensor_(&tensor) {}
  void tile_columns(float* row) const;
  uint64_t source_row(uint64_t row) const; // where the row was before rows within heads were permuted

  const GgufTensor* tensor_;
  uint64_t rows_ = 0;
  uint64_t columns_ = 0;
};

using WriteBytes = std::function<Status(std::span<const std::byte>)>;

// How much errors in the columns of a row count, as many numbers; null if all count alike.
using RowImportance = std::function<const float*(uint64_t row)>;

// Quantises a tensor's rows to a type on all cores and writes them, a few megabytes at a time. `done` is
// increased by the bytes written; `progress` is called with `done` and `total`. Error: cancelled if it
// returns false. `importance` is called from several threads; it may be empty.
Status write_rows(const TensorRows& rows, TensorType type, const WriteBytes& write, const Progress& progress,
                  uint64_t& done, uint64_t total, const RowImportance& importance = {});

} // namespace pumice
