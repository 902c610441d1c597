#pragma once

#include <vector>

#include "model/architecture.h"

namespace pumice {

// What the decoder reads of a picture, in the picture's order, of all rows that its tower made in a step.
// `grid`: of its patches, where pictures have any size.
std::vector<float> rows_of_picture(const PictureTokens& shape, const EncoderShape& tower,
                                   const PatchGrid& grid, std::vector<float> all, size_t columns);

} // namespace pumice
