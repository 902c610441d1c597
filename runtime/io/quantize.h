#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "io/tensor_type.h"

namespace pumice {

// Whether floats can be quantised to this type.
bool can_quantize(TensorType type);

// The names of those types, "F32, F16, ...", for messages.
std::string quantizable_type_names();

// Quantises a row of floats to `type`. The row must be a whole number of blocks, and `out` must have room for
// row_bytes(type, row.size()) bytes. `importance`: how much an error in each of the row's values counts, as
// many numbers, none of them negative; null if all count alike. The result for values that are not finite is
// unspecified.
void quantize_row(TensorType type, std::span<const float> row, std::byte* out,
                  const float* importance = nullptr);

// The type that a matrix has after loading, where plain numbers (F32, F16, BF16) are quantised to `weights`,
// if it is given. A matrix that is quantised already keeps its type.
TensorType quantized_type(TensorType source, std::optional<TensorType> weights);

} // namespace pumice
