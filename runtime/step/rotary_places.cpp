#include "step/rotary_places.h"

#include <algorithm>

#include "step/prompt_embeddings.h"

namespace pumice {

RotaryPlaces::RotaryPlaces(std::span<const uint32_t> tokens, std::span<const PatchGrid> grids) {
  size_t last = tokens.size();
  while (last > 0 && !is_prompt_row(tokens[last - 1])) --last;
  places_.reserve(last);
  uint32_t row = 0; // of the picture
  for (const uint32_t token : tokens.first(last)) {
    if (!is_prompt_row(token) || grids.empty()) {
      places_.push_back({lag_, 0, 0});
      continue;
    }
    const PatchGrid& grid = grids.front();
    places_.push_back({lag_ + row, row / grid.width, row % grid.width});
    const auto rows = static_cast<uint32_t>(grid.count());
    if (++row < rows) continue;
    lag_ += rows - std::max(grid.height, grid.width);
    row = 0;
    grids = grids.subspan(1);
  }
}

} // namespace pumice
