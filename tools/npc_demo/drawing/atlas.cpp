#include "drawing/atlas.h"

#include <algorithm>

#include "drawing/font.h"

namespace npc {

namespace {

constexpr uint32_t replacement = 0xFFFD;

// The characters of the stories: Latin letters, quotation marks, dashes and dots.
bool is_used(uint32_t code) {
  return code < 0x180 || (code >= 0x2010 && code <= 0x2044) || code == replacement;
}

} // namespace

Atlas::Atlas() : pixels_(width * 2) {
  std::fill_n(pixels_.begin(), 2, uint8_t{255}); // a white pixel, for shapes
  std::fill_n(pixels_.begin() + width, 2, uint8_t{255});
  uint32_t x = 3, y = 0, row_height = 3;
  for (const Font& font : fonts()) {
    for (const Glyph& glyph : font.glyphs) {
      if (!is_used(glyph.code)) continue;
      if (x + glyph.width + 1 > width) {
        x = 0;
        y += row_height;
        row_height = 0;
      }
      row_height = std::max(row_height,
                            glyph.height + 1u); // one pixel between letters, because the texture is filtered
      pixels_.resize(std::max<size_t>(pixels_.size(), size_t{y + row_height} * width));
      for (uint32_t i = 0; i < uint32_t{glyph.width} * glyph.height; ++i) {
        const uint32_t pixel = glyph.offset + i;
        const int coverage = font.coverage[pixel / 2] >> (4 * (pixel % 2)) & 15;
        pixels_[(y + i / glyph.width) * width + x + i % glyph.width] = static_cast<uint8_t>(coverage * 17);
      }
      letters_[{font.size, glyph.code}] = {float(glyph.left),   float(glyph.top), float(glyph.width),
                                           float(glyph.height), float(x),         float(y),
                                           float(glyph.advance)};
      x += glyph.width + 1;
    }
  }
}

const Atlas::Letter& Atlas::letter(uint32_t size, uint32_t code) const {
  const auto found = letters_.find({size, code});
  return found != letters_.end() ? found->second : letters_.at({size, replacement});
}

float Atlas::text_width(uint32_t size, std::string_view utf8) const {
  float sum = 0;
  while (!utf8.empty()) sum += letter(size, take_character(utf8)).advance;
  return sum;
}

uint32_t take_character(std::string_view& utf8) {
  const auto first = static_cast<uint8_t>(utf8.front());
  utf8.remove_prefix(1);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  uint32_t code = first & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    if (utf8.empty() || (utf8.front() & 0xC0) != 0x80) return replacement;
    code = code << 6 | (utf8.front() & 0x3F);
    utf8.remove_prefix(1);
  }
  return more > 0 ? code : replacement;
}

} // namespace npc
