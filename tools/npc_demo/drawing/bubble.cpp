#include "drawing/bubble.h"

#include <algorithm>

namespace npc {

namespace {

constexpr Colour paper = {255, 250, 238, 246};
constexpr Colour ink = {48, 40, 52, 255};
constexpr Colour alarm = {170, 30, 30, 255};
constexpr Colour bar = {255, 158, 64, 255};
constexpr Colour bar_ground = {226, 216, 200, 255};

} // namespace

std::vector<std::string_view> wrap(const Canvas& canvas, uint32_t size, float width, std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::string_view rest = text;
    size_t line = 0, word_end = 0; // the bytes that fit, and the bytes up to the last space among them
    float pen = 0;
    bool broken = false;
    while (!rest.empty() && !broken) {
      if (rest.front() == '\n') {
        word_end = line;
        break;
      }
      if (rest.front() == ' ') word_end = line;
      const size_t before = rest.size();
      const std::string_view at = rest;
      take_character(rest);
      const size_t bytes = before - rest.size();
      pen += canvas.text_width(size, at.substr(0, bytes));
      broken = pen > width && line > 0;
      if (!broken) line += bytes;
    }
    const size_t end = broken && word_end > 0 ? word_end : line;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  }
  return lines;
}

void draw_bubble(Canvas& canvas, Point mouth, float ground, const BubbleText& content) {
  const bool large = canvas.width() >= 800;
  const uint32_t size = large ? 18 : 15;
  const float line_height = large ? 25 : 20, padding = large ? 18 : 12;
  const float left = canvas.width() * 0.345f, width = canvas.width() * 0.965f - left - padding;
  const float top = ground * 0.06f;
  const float text_width = width - 2 * padding;
  std::vector<std::string_view> lines = wrap(canvas, size, text_width, content.text);
  const auto most = std::max<size_t>(2, static_cast<size_t>((ground * 0.66f - 2 * padding) / line_height));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));

  const float bar_height = content.progress ? line_height : 0;
  const float height =
      std::max(3.f, static_cast<float>(lines.size())) * line_height + bar_height + 2 * padding;
  const float root = std::clamp(mouth.y - 20, top + 30, top + height - 24);
  const Point tail[] = {{left + 4, root - 12}, {mouth.x + 6, mouth.y}, {left + 4, root + 12}};
  canvas.polygon(tail, paper);
  canvas.rounded(left, top, width, height, 16, paper);

  float y = top + padding + line_height * 0.72f;
  for (const std::string_view line : lines) {
    canvas.text(left + padding, y, size, content.complaint ? alarm : ink, line);
    y += line_height;
  }
  if (content.progress) {
    canvas.rounded(left + padding, y, text_width, 10, 5, bar_ground);
    canvas.rounded(left + padding, y, std::max(10.f, text_width * *content.progress), 10, 5, bar);
  }
}

} // namespace npc
