#pragma once

#include <cstdint>
#include <span>

namespace pumice {

// A character as a bitmap of coverage: how much of each pixel it covers.
struct Glyph {
  uint32_t code = 0;   // Unicode
  uint32_t offset = 0; // of its first pixel in Font::coverage, in pixels
  uint8_t width = 0;
  uint8_t height = 0;
  int8_t left = 0; // from the pen to the first column, in pixels
  int8_t top = 0;  // from the base line up to the first row
  uint8_t advance = 0;
};

// One size of the font, which is rasterised when the library is built (tools/embed_font.cpp).
struct Font {
  uint32_t size = 0;                      // in pixels
  std::span<const Glyph> glyphs;          // sorted by code
  std::span<const uint8_t> coverage;      // two pixels a byte, 0 to 15, the low nibble first
  const Glyph* find(uint32_t code) const; // null if it lacks the character
};

// The available sizes, smallest first: for crowded labels, labels and titles. They contain Latin with all
// accents, Greek, Cyrillic, Armenian, Georgian, digits, punctuation, currency signs, arrows and mathematical
// signs.
std::span<const Font> fonts();

} // namespace pumice
