#pragma once

#include "media/font.h"
#include "media/image.h"

#include <string_view>

namespace pumice {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

enum class Direction { right, up };

// Characters to draw, in one line: UTF-8 made of composed characters, with signs in place of line ends and of
// blanks that stand alone, and U+FFFD for what is no UTF-8.
std::u32string drawable(std::string_view text);

// The same cut to a width in pixels, with an ellipsis where it was cut.
std::u32string cut_to(std::u32string text, const Font& font, uint32_t width);

uint32_t text_width(std::u32string_view text, const Font& font);

// A white picture to draw on. What falls outside is left away.
class Canvas {
public:
  Canvas(uint32_t width, uint32_t height);

  void fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour);
  // From (x, y) on the base line. A character that the font lacks is a box with its number.
  void text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
            Direction direction = Direction::right);

  Image take() && { return std::move(image_); }

private:
  void blend(int64_t x, int64_t y, Colour colour, uint32_t coverage); // of 15

  Image image_;
};

} // namespace pumice
