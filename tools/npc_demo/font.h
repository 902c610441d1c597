#pragma once

#include <cstdint>
#include <span>

namespace npc {

// A character as a picture of how much of each pixel it covers.
struct Glyph {
  uint32_t code = 0;   // Unicode
  uint32_t offset = 0; // of its first pixel in the font's coverage, in pixels
  uint8_t width = 0;
  uint8_t height = 0;
  int8_t left = 0; // from the pen to the first column
  int8_t top = 0;  // from the base line up to the first row
  uint8_t advance = 0;
};

// One size of the font, rasterised when the demo is built (tools/embed_font.cpp).
struct Font {
  uint32_t size = 0;                 // in pixels
  std::span<const Glyph> glyphs;     // sorted by code
  std::span<const uint8_t> coverage; // two pixels a byte, 0 to 15, the low half first
};

std::span<const Font> fonts();

} // namespace npc
