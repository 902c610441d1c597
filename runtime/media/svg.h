#pragma once

#include <string>

#include "media/canvas.h"

namespace pumice {

// The shapes of an SVG file. Its text stays text: who shows the file draws it, with the fonts that are there.
class Svg : public Surface {
public:
  Svg(uint32_t width, uint32_t height);

  void fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour) override;
  void text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
            Direction direction = Direction::right) override;

  std::string take() &&; // the whole file

private:
  std::string file_;
};

} // namespace pumice
