#pragma once

#include <span>
#include <vector>

#include "media/patch_grid.h"

namespace pumice {

// Where the tokens of a text with pictures are for a decoder whose rotary positions have three parts (M-RoPE,
// Wang et al., Qwen2-VL, 2024). A picture's rows have one place in the text, and places down and across; what
// follows is as far behind it as its longer side is long. So places lag behind positions.
class RotaryPlaces {
public:
  RotaryPlaces() = default;
  // `grids`: of the pictures whose rows are the tokens with PROMPT_ROW, in rows.
  RotaryPlaces(std::span<const uint32_t> tokens, std::span<const PatchGrid> grids);

  struct Place {
    uint32_t lag = 0; // of the place in the text behind the position
    uint32_t down = 0, across = 0;
  };
  Place at(size_t position) const {
    return position < places_.size() ? places_[position] : Place{lag_, 0, 0};
  }
  // After the last picture.
  uint32_t lag() const { return lag_; }

private:
  std::vector<Place> places_; // up to the last picture's last row
  uint32_t lag_ = 0;
};

} // namespace pumice
