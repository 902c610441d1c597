#include "step/patch_order.h"

#include <algorithm>

#include "shaders/common/step.h"

namespace pumice {

namespace {

// Calls `take` with each window's squares.
template <class Take>
void for_each_window(const PatchGrid& squares, uint32_t side, const Take& take) {
  side = std::max(side, 1u);
  for (uint32_t top = 0; top < squares.height; top += side) {
    for (uint32_t left = 0; left < squares.width; left += side) {
      std::vector<uint32_t> window;
      for (uint32_t down = top; down < std::min(top + side, squares.height); ++down) {
        for (uint32_t across = left; across < std::min(left + side, squares.width); ++across)
          window.push_back(down * squares.width + across);
      }
      take(window);
    }
  }
}

// Where a square's patch lies in it.
struct Place {
  uint32_t down = 0, across = 0;
};

Place place_in_square(uint32_t patch, const PatchGroups& groups) {
  if (!groups.nested) return {patch / groups.merge, patch % groups.merge};
  Place place;
  for (uint32_t bit = 0; patch >> 2 * bit > 0; ++bit) {
    place.across |= (patch >> 2 * bit & 1) << bit;
    place.down |= (patch >> (2 * bit + 1) & 1) << bit;
  }
  return place;
}

} // namespace

uint32_t window_token(uint32_t first, uint32_t patches) {
  return first << STEP_WINDOW_BITS | patches;
}

uint32_t moved_window(uint32_t window, uint32_t first) {
  return window + (first << STEP_WINDOW_BITS);
}

uint32_t grid_token(const PatchGrid& grid) {
  return grid.height << 16 | grid.width;
}

std::vector<uint32_t> ordered_squares(const PatchGrid& grid, const PatchGroups& groups) {
  std::vector<uint32_t> all;
  for_each_window(grid.merged(groups.merge), groups.window, [&](const std::vector<uint32_t>& window) {
    all.insert(all.end(), window.begin(), window.end());
  });
  return all;
}

std::vector<OrderedPatch> ordered_patches(const PatchGrid& grid, const PatchGroups& groups) {
  const PatchGrid squares = grid.merged(groups.merge);
  const uint32_t each = groups.merge * groups.merge;
  std::vector<OrderedPatch> all;
  for_each_window(squares, groups.window, [&](const std::vector<uint32_t>& window) {
    const uint32_t token =
        window_token(static_cast<uint32_t>(all.size()), static_cast<uint32_t>(window.size()) * each);
    for (const uint32_t square : window) {
      for (uint32_t patch = 0; patch < each; ++patch) {
        const Place place = place_in_square(patch, groups);
        all.push_back({square * each + place.down * groups.merge + place.across,
                       square / squares.width * groups.merge + place.down,
                       square % squares.width * groups.merge + place.across, token});
      }
    }
  });
  return all;
}

} // namespace pumice
