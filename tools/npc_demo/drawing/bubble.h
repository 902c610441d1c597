#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drawing/canvas.h"

namespace npc {

struct BubbleText {
  std::string_view text;
  bool complaint = false;        // something went wrong
  std::optional<float> progress; // a bar below the text, 0 to 1
};

// Draws a speech bubble to the right of a mouth, above `ground`. Shows the end of a long text.
void draw_bubble(Canvas& canvas, Point mouth, float ground, const BubbleText& content);

// Splits a text into lines of at most `width` pixels, at spaces or within words that are longer than a line.
std::vector<std::string_view> wrap(const Canvas& canvas, uint32_t size, float width, std::string_view text);

} // namespace npc
