#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/tensor_type.h"

namespace pumice {

// llama.cpp's number (general.file_type) of files that are mostly of a type that can be written.
uint32_t file_type_number(TensorType type);

// The type in which a matrix is written, and whether the requested type did not fit.
struct WrittenType {
  TensorType type = TensorType::f32;
  bool fell_back = false;
};

// The requested type, and Q6_K in place of Q4_K for the head. If rows of `columns` are not a whole number of
// its blocks, Q8_0 or, if that does not fit either, F16.
WrittenType written_matrix_type(TensorType requested, bool head, uint64_t columns);

// A sentence for the user about matrices that fell back.
std::string fallback_note(const std::string& file, size_t fallen_back, size_t tensors, TensorType requested);

} // namespace pumice
