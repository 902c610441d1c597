#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace npc {

// One picture with all letters of the font, and the place of each letter in it.
class Atlas {
public:
  struct Letter {
    float left, top, width, height; // in pixels, from the pen on the base line; top points upwards
    float u, v;                     // upper left corner in the picture, in pixels
    float advance;
  };

  Atlas();
  static constexpr uint32_t width = 512;
  uint32_t height() const { return static_cast<uint32_t>(pixels_.size()) / width; }
  const std::vector<uint8_t>& pixels() const { return pixels_; }

  // If the font does not have the letter, a replacement.
  const Letter& letter(uint32_t size, uint32_t code) const;
  float text_width(uint32_t size, std::string_view utf8) const;
  // The coordinates of a white pixel, for shapes that are not text.
  static constexpr float white = 0.5f;

private:
  std::map<std::pair<uint32_t, uint32_t>, Letter> letters_; // by size and code
  std::vector<uint8_t> pixels_;
};

// Removes the first character of a text and returns it; U+FFFD if it is not UTF-8.
uint32_t take_character(std::string_view& utf8);

} // namespace npc
