#include "media/canvas.h"

#include "media/system_fonts.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

namespace pumice {

namespace {

constexpr char32_t ellipsis = U'\u2026';

// Digits 0 to 9 and A to F, five rows of three pixels each. The highest of the 15 bits is the upper left
// pixel.
constexpr uint16_t hex_digits[16] = {
    0b111101101101111, 0b010110010010111, 0b111001111100111, 0b111001111001111,
    0b101101111001001, 0b111100111001111, 0b111100111101111, 0b111001001001001,
    0b111101111101111, 0b111101111001111, 0b010101111101101, 0b110101110101110,
    0b111100100100111, 0b110101101101110, 0b111100111100111, 0b111100111100100,
};
constexpr uint32_t digit_width = 4, digit_height = 6, box_padding = 3;

// The width of a box, which has the character's code as digits in two rows within a frame.
uint32_t box_columns(char32_t code) {
  return code > 0xFFFF ? 3 : 2;
}
uint32_t box_width(char32_t code) {
  return box_columns(code) * digit_width + box_padding;
}
constexpr int64_t box_height = 2 * digit_height + box_padding;

bool is_invisible(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF;
}

struct Drawing {
  const Glyph* glyph = nullptr; // none: a box
  const uint8_t* coverage = nullptr;
};

Drawing drawing_of(char32_t code, const Font& font) {
  if (const Glyph* glyph = font.find(code)) return {glyph, font.coverage.data()};
  if (const SystemGlyph* found = system_glyph(code, font.size))
    return {&found->glyph, found->coverage.data()};
  return {};
}

uint32_t advance(char32_t code, const Font& font) {
  if (const Glyph* glyph = drawing_of(code, font).glyph) return glyph->advance;
  return is_invisible(code) ? 0 : box_width(code) + 1;
}

// Draws a character that the font lacks. dot(right, down, coverage) draws a pixel relative to the pen
// position on the base line.
template <class Dot>
void draw_box(char32_t code, Dot dot) {
  constexpr uint32_t frame = 5;
  const int64_t right = box_width(code) - 1, top = 3 - box_height, bottom = 2;
  for (int64_t i = 0; i <= right; ++i)
    for (const int64_t edge : {top, bottom}) dot(i, edge, frame);
  for (int64_t i = top + 1; i < bottom; ++i)
    for (const int64_t edge : {int64_t{0}, right}) dot(edge, i, frame);
  const uint32_t columns = box_columns(code);
  for (uint32_t digit = 0; digit < 2 * columns; ++digit) {
    const uint16_t shape = hex_digits[code >> (2 * columns - 1 - digit) * 4 & 15];
    for (uint32_t pixel = 0; pixel < 15; ++pixel)
      if (shape >> (14 - pixel) & 1)
        dot(digit % columns * digit_width + 2 + pixel % 3,
            top + 2 + digit / columns * digit_height + pixel / 3, 15);
  }
}

} // namespace

std::u32string drawable(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  utf8proc_uint8_t* composed = nullptr;
  const auto length = utf8proc_map(bytes, static_cast<utf8proc_ssize_t>(text.size()), &composed,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(composed, std::free);
  utf8proc_ssize_t rest = static_cast<utf8proc_ssize_t>(text.size());
  if (length >= 0) {
    bytes = composed;
    rest = length;
  }
  std::u32string result;
  while (rest > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t used = std::max<utf8proc_ssize_t>(utf8proc_iterate(bytes, rest, &code), 1);
    bytes += used;
    rest -= used;
    if (code == '\n' || code == '\r')
      result += U'\u21B5';
    else if (code == '\t')
      result += U'\u21E5';
    else
      result += code < 0x20 || code == 0x7F ? U'\uFFFD' : static_cast<char32_t>(code);
  }
  if (std::ranges::all_of(result, [](char32_t code) { return code == U' '; }))
    std::ranges::fill(result, U'\u2423');
  return result;
}

bool has_glyph(char32_t code, const Font& font) {
  return drawing_of(code, font).glyph || is_invisible(code);
}

uint32_t text_width(std::u32string_view text, const Font& font) {
  uint32_t width = 0;
  for (const char32_t code : text) width += advance(code, font);
  return width;
}

std::u32string cut_to(std::u32string text, const Font& font, uint32_t width) {
  if (text_width(text, font) <= width) return text;
  const uint32_t room = width - std::min(width, advance(ellipsis, font));
  uint32_t used = 0;
  size_t count = 0;
  while (count < text.size() && used + advance(text[count], font) <= room)
    used += advance(text[count++], font);
  text.resize(count);
  return text + ellipsis;
}

Canvas::Canvas(uint32_t width, uint32_t height)
    : image_{width, height, std::vector<uint8_t>(size_t{width} * height * 3, 255)} {}

void Canvas::fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour) {
  for (int64_t row = y; row < y + height; ++row)
    for (int64_t column = x; column < x + width; ++column) blend(column, row, colour, 15);
}

void Canvas::blend(int64_t x, int64_t y, Colour colour, uint32_t coverage) {
  if (x < 0 || y < 0 || x >= image_.width || y >= image_.height) return;
  uint8_t* pixel =
      image_.pixels.data() + (static_cast<size_t>(y) * image_.width + static_cast<size_t>(x)) * 3;
  const auto mix = [&](uint8_t& under, uint8_t over) {
    under = static_cast<uint8_t>((under * (15 - coverage) + over * coverage + 7) / 15);
  };
  mix(pixel[0], colour.red);
  mix(pixel[1], colour.green);
  mix(pixel[2], colour.blue);
}

void Canvas::text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
                  Direction direction) {
  int64_t pen = 0;
  // Draws a pixel relative to the pen position on the base line, in the direction of writing.
  const auto dot = [&](int64_t right, int64_t down, uint32_t coverage) {
    right += pen;
    direction == Direction::right ? blend(x + right, y + down, colour, coverage)
                                  : blend(x + down, y - right, colour, coverage);
  };
  for (const char32_t code : text) {
    const auto [glyph, coverage] = drawing_of(code, font);
    if (glyph) {
      for (uint32_t pixel = 0; pixel < uint32_t{glyph->width} * glyph->height; ++pixel) {
        const uint32_t at = glyph->offset + pixel;
        dot(glyph->left + pixel % glyph->width, int64_t{pixel / glyph->width} - glyph->top,
            coverage[at / 2] >> (at % 2 * 4) & 15);
      }
    } else if (!is_invisible(code)) {
      draw_box(code, dot);
    }
    pen += advance(code, font);
  }
}

} // namespace pumice
