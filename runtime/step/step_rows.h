#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/step_layout.h"

namespace pumice {

// The rows of a step without room for others: the header, `tokens` rows and `tokens` details of a step block
// (shaders/common/step.h). This is what stages send each other.
inline constexpr uint32_t packed_row_words(uint32_t tokens) {
  return (STEP_HEADER_QUADS + 2 * tokens) * 4;
}
std::vector<uint32_t> pack_rows(std::span<const uint32_t> block, const StepLayout& layout, uint32_t tokens);
// `words`: packed_row_words(tokens) of them. Writes the beginning of a step block.
void unpack_rows(std::span<const uint32_t> words, const StepLayout& layout, uint32_t tokens,
                 std::span<uint32_t> block);

} // namespace pumice
