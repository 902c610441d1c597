#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "io/tensor_type.h"

namespace pumice {

// Types that floats can be turned into.
bool can_quantize(TensorType type);

// "F32, F16, ...", for messages.
std::string quantizable_type_names();

// A row of floats to `type`. The row is a whole number of blocks, `out` has row_bytes(type, row.size()), and
// values that are not finite give whatever they give.
void quantize_row(TensorType type, std::span<const float> row, std::byte* out);

// What matrices of a file's type become where plain numbers are to be quantised to `weights`: quantised ones
// stay as they are.
TensorType quantized_type(TensorType source, std::optional<TensorType> weights);

} // namespace pumice
