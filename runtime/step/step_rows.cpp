#include "step/step_rows.h"

#include <algorithm>

namespace pumice {

std::vector<uint32_t> pack_rows(std::span<const uint32_t> block, const StepLayout& layout, uint32_t tokens) {
  const auto rows = block.first((STEP_HEADER_QUADS + tokens) * size_t{4});
  const auto details = block.subspan(layout.details() * size_t{4}, tokens * size_t{4});
  std::vector<uint32_t> words(rows.begin(), rows.end());
  words.insert(words.end(), details.begin(), details.end());
  return words;
}

void unpack_rows(std::span<const uint32_t> words, const StepLayout& layout, uint32_t tokens,
                 std::span<uint32_t> block) {
  const size_t rows = (STEP_HEADER_QUADS + tokens) * size_t{4};
  std::ranges::copy(words.first(rows), block.begin());
  std::ranges::copy(words.subspan(rows), block.begin() + static_cast<ptrdiff_t>(layout.details()) * 4);
}

} // namespace pumice
