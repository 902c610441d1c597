#pragma once

#include "io/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// A named tensor in a file. It owns no data.
struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<uint64_t> shape;     // outermost first, as in Hugging Face; GGUF files store the reverse
  std::span<const std::byte> data; // in the mapped file; need not be aligned
  // Not empty in MXFP4 as Hugging Face's folders have it: the blocks' exponents. `data` then has the codes
  // alone, 16 bytes to a block, neighbours in the halves of a byte. Read such blocks by join_blocks().
  std::span<const std::byte> exponents;
};

// Writes blocks of such a tensor as GGUF files have them.
void join_blocks(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* to);

} // namespace pumice
