#pragma once

#include "model/architecture.h"

namespace pumice {

// How a model's pictures are prepared: as the file says of whose tower `shape` is, or else the files in its
// folder. `most_patches`: the largest picture of a model that reads pictures of any size; 0: as large as the
// context allows. An error if the model reads no pictures of red, green and blue.
Result<ImagePreparation> picture_preparation(const ModelFile& file, const EncoderShape& shape,
                                             uint32_t most_patches = 0);

} // namespace pumice
