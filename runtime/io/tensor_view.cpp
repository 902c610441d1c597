#include "io/tensor_view.h"

namespace pumice {

// A block's exponent, then its first codes in the lower halves of bytes and its last ones in the upper.
void join_blocks(const TensorView& tensor, uint64_t first, uint64_t count, std::byte* to) {
  if (tensor.blocks) return tensor.blocks->read(first, count, to);
  constexpr size_t code_bytes = 16;
  for (uint64_t block = first; block < first + count; ++block) {
    const std::byte* codes = tensor.data.data() + block * code_bytes;
    *to++ = tensor.exponents[block];
    for (size_t i = 0; i < code_bytes; ++i) {
      const unsigned shift = i % 2 * 4;
      const std::byte low = codes[i / 2] >> shift & std::byte{15};
      const std::byte high = codes[(i + code_bytes) / 2] >> shift & std::byte{15};
      *to++ = low | high << 4;
    }
  }
}

} // namespace pumice
