#pragma once

#include <memory>

#include "io/quantised/folder_array.h"
#include "io/tensor_view.h"

namespace pumice {

// NVFP4 as folders have it, in F32: no type has scales of 16 weights beside a factor of the whole matrix.
// `codes`: of U8, neighbours in the halves of a byte, the first in the lower one. `scales`: of F8_E4M3.
std::shared_ptr<const BlockSource> nvfp4_blocks(const FolderArray& codes, const FolderArray& scales,
                                                float factor);
// The same of blocks as GGUF has them.
std::shared_ptr<const BlockSource> nvfp4_blocks(std::span<const std::byte> blocks, float factor);

} // namespace pumice
