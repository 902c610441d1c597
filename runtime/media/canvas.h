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

// Whether this font, or one of the machine's, has a character. What is not seen needs none.
bool has_glyph(char32_t code, const Font& font);

// What is drawn on, white at first.
class Surface {
public:
  virtual ~Surface() = default;
  virtual void fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour) = 0;
  // Draws text from (x, y) on the base line.
  virtual void text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
                    Direction direction = Direction::right) = 0;
};

// Pixels. Drawing outside of them has no effect.
class Canvas : public Surface {
public:
  Canvas(uint32_t width, uint32_t height);

  void fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour) override;
  // A character that neither the font nor the machine's fonts have is drawn as a box with its code.
  void text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
            Direction direction = Direction::right) override;

  Image take() && { return std::move(image_); }

private:
  void blend(int64_t x, int64_t y, Colour colour, uint32_t coverage); // 0 to 15

  Image image_;
};

} // namespace pumice
