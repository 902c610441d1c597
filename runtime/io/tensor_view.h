#pragma once

#include "io/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// Blocks that a file has in another form than its type's, which are made when they are read.
class BlockSource {
public:
  virtual ~BlockSource() = default;
  // Writes `count` blocks from block `first` on. From any thread.
  virtual void read(uint64_t first, uint64_t count, std::byte* to) const = 0;
};

// A named tensor in a file. It owns no data.
struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<uint64_t> shape;     // outermost first, as in Hugging Face; GGUF files store the reverse
  std::span<const std::byte> data; // in the mapped file; need not be aligned
  // Not empty in MXFP4 as Hugging Face's folders have it: the blocks' exponents. `data` then has the codes
  // alone, 16 bytes to a block, neighbours in the halves of a byte. Read such blocks by join_blocks().
  std::span<const std::byte> exponents;
  // Set where the blocks have to be made; `data` is then most of what they are made of. Read them by
  // join_blocks().
  std::shared_ptr<const BlockSource> blocks;

  // Whether `data` has the blocks one after the other.
  bool in_blocks() const { return exponents.empty() && !blocks; }
};

// Writes blocks of a tensor that has them in another form.
void join_blocks(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* to);

} // namespace pumice
