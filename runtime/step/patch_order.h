#pragma once

#include <vector>

#include "model/architecture.h"

namespace pumice {

// A patch of a picture, as a row of a step.
struct OrderedPatch {
  uint32_t index = 0; // in the encoder's input: squares row by row, and the patches of each in lines
  uint32_t down = 0, across = 0; // its place in the picture
  uint32_t window = 0;           // StepToken::token, with positions counted from the picture's first row
};

// The squares of a picture in the order of their windows, which lie in rows, as do the squares of each.
// Windows at the lower and right edges may be smaller. Without windows, squares lie row by row.
std::vector<uint32_t> ordered_squares(const PatchGrid& grid, const PatchGroups& groups);
// Its patches in the same order. The grid is made of whole squares.
std::vector<OrderedPatch> ordered_patches(const PatchGrid& grid, const PatchGroups& groups);

// StepToken::token of a patch whose window has so many patches from this position on.
uint32_t window_token(uint32_t first, uint32_t patches);
// The same where a picture begins later.
uint32_t moved_window(uint32_t window, uint32_t first);
// StepToken::token of a patch where there are no windows: the size of its picture.
uint32_t grid_token(const PatchGrid& grid);

} // namespace pumice
