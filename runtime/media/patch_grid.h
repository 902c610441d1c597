#pragma once

#include <algorithm>
#include <cstdint>

namespace pumice {

// How many patches of one size a picture has.
struct PatchGrid {
  uint32_t height = 0, width = 0;

  uint64_t count() const { return uint64_t{height} * width; }
  // Of squares of so many patches on each side.
  PatchGrid merged(uint32_t side) const { return {height / side, width / side}; }
  bool operator==(const PatchGrid&) const = default;
};

// How pictures of any size are divided (Qwen 2.5-VL, Pixtral): into squares of patches, which become one row
// each.
struct PatchCutting {
  uint32_t patch = 14;     // pixels on each side
  uint32_t copies = 2;     // of a still picture in a patch, as if it were so many frames
  uint32_t merge = 2;      // patches on each side of a square
  uint64_t min_pixels = 0; // of the resized picture
  uint64_t max_pixels = 0;
  bool grows_edges = false; // a picture is first made larger until both edges are a square's
  bool fills = false;       // a picture is made as large as may be, in about its proportions (Gemma 4)
  // Not 0: a picture is only made smaller, until no edge is longer, and then its edges are made whole
  // squares.
  uint32_t longest_edge = 0;

  uint32_t square() const { return patch * merge; } // pixels on each side
  // No edge is longer, but for what makes it whole squares.
  void limit_edges(uint32_t pixels) {
    longest_edge = pixels;
    const uint64_t whole = (uint64_t{pixels} + square() - 1) / square() * square();
    max_pixels = std::min(max_pixels, whole * whole);
  }
  uint32_t values() const { return 3 * copies * patch * patch; } // of a patch
};

} // namespace pumice
