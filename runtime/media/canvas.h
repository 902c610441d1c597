#pragma once

#include "media/font.h"
#include "media/image.h"

#include <string_view>

namespace pumice {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

enum class Direction { right, up };

// Turns UTF-8 into characters to draw on one line. Characters are composed (NFC); line ends, tabs and texts
// of only spaces become visible signs, and invalid UTF-8 becomes U+FFFD.
std::u32string drawable(std::string_view text);

// Cuts text to a width in pixels and puts an ellipsis where it was cut.
std::u32string cut_to(std::u32string text, const Font& font, uint32_t width);

uint32_t text_width(std::u32string_view text, const Font& font);

// A white picture to draw on. Drawing outside of it has no effect.
class Canvas {
public:
  Canvas(uint32_t width, uint32_t height);

  void fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour);
  // Draws text from (x, y) on the base line. A character that neither the font nor the
  // machine's fonts have is drawn as a box with its code.
  void text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
            Direction direction = Direction::right);

  Image take() && { return std::move(image_); }

private:
  void blend(int64_t x, int64_t y, Colour colour, uint32_t coverage); // 0 to 15

  Image image_;
};

} // namespace pumice
