#pragma once

#include <cstdint>
#include <span>

namespace npc {

// A character, as the coverage of each pixel.
struct Glyph {
  uint32_t code = 0;   // Unicode
  uint32_t offset = 0; // its first pixel in Font::coverage, in pixels
  uint8_t width = 0;
  uint8_t height = 0;
  int8_t left = 0; // pixels from the pen to the first column
  int8_t top = 0;  // pixels from the base line up to the first row
  uint8_t advance = 0;
};

// One size of the font. tools/embed_font.cpp rasterises it when the demo is built.
struct Font {
  uint32_t size = 0;                 // in pixels
  std::span<const Glyph> glyphs;     // sorted by code
  std::span<const uint8_t> coverage; // two pixels a byte, 0 to 15, the low half first
};

std::span<const Font> fonts();

} // namespace npc
