#pragma once

#include "base/progress.h"
#include "io/gguf_writer.h"
#include "model/gguf_tensor.h"

namespace pumice {

// The numbers of a tensor that is being made, a few rows at a time.
class TensorRows {
public:
  // invalid_file where the parts do not make the shape.
  static Result<TensorRows> of(const GgufTensor& tensor);

  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }

  // Rows first to first + count - 1, one after the other.
  void read(uint64_t first, uint64_t count, float* out) const;

private:
  explicit TensorRows(const GgufTensor& tensor) : tensor_(&tensor) {}
  uint64_t source_row(uint64_t row) const; // before heads' rows were exchanged

  const GgufTensor* tensor_;
  uint64_t rows_ = 0;
  uint64_t columns_ = 0;
};

// Writes a tensor's rows in a type, on every core; never more than a few megabytes of it are in memory.
// `done` of `total` bytes is what `progress` is told, and grows.
Status write_rows(const TensorRows& rows, TensorType type, GgufWriter& writer, const Progress& progress,
                  uint64_t& done, uint64_t total);

} // namespace pumice
