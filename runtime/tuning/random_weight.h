#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "io/tensor_type.h"

namespace pumice {

// Random numbers and weights to compare and time kernels with. The same with every compiler and library.

// Uniform from -1 to 1.
float random_value(std::mt19937& random);

// A random matrix [rows, columns] in the format of model files. In quantised blocks any bytes are valid
// except the scales, which get sensible values.
std::vector<std::byte> random_weight(TensorType type, uint32_t rows, uint32_t columns, uint32_t seed);

} // namespace pumice
