#include "media/svg.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <utf8proc.h>

namespace pumice {

namespace {

// Fonts as wide as the one that sizes are taken from, then what systems have for Chinese, Japanese and
// Korean.
constexpr std::string_view families =
    "DejaVu Sans, Verdana, Noto Sans, Noto Sans CJK SC, Noto Sans CJK JP, Noto Sans CJK KR, "
    "PingFang SC, Hiragino Sans, Apple SD Gothic Neo, Microsoft YaHei, Yu Gothic, "
    "Malgun Gothic, sans-serif";

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

std::string escaped(std::u32string_view text) {
  std::string result;
  for (const char32_t code : text) {
    if (code == U'&') {
      result += "&amp;";
    } else if (code == U'<') {
      result += "&lt;";
    } else if (code == U'>') {
      result += "&gt;";
    } else if (code < 0xFFFE || code > 0xFFFF) { // XML has all others of drawable()
      utf8proc_uint8_t bytes[4];
      const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
      result.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
    }
  }
  return result;
}

} // namespace

Svg::Svg(uint32_t width, uint32_t height)
    : file_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                        "viewBox=\"0 0 {0} {1}\" font-family=\"{2}\" xml:space=\"preserve\">\n"
                        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
                        width, height, families)) {}

void Svg::fill(int64_t x, int64_t y, uint32_t width, uint32_t height, Colour colour) {
  file_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x, y, width,
                       height, hex(colour));
}

void Svg::text(int64_t x, int64_t y, std::u32string_view text, const Font& font, Colour colour,
               Direction direction) {
  if (text.empty()) return;
  file_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"", x, y, font.size, hex(colour));
  // As wide here as it was reckoned with, whatever the font is.
  if (std::ranges::all_of(text, [&](char32_t code) { return has_glyph(code, font); }))
    file_ += fmt::format(" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", text_width(text, font));
  if (direction == Direction::up) file_ += fmt::format(" transform=\"rotate(-90 {} {})\"", x, y);
  file_ += fmt::format(">{}</text>\n", escaped(text));
}

std::string Svg::take() && {
  return std::move(file_) + "</svg>\n";
}

} // namespace pumice
