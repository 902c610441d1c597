#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace npc {

// All letters of the font in one picture of coverage, and where each one is.
class Atlas {
public:
  struct Letter {
    float left, top, width, height; // of its pixels, from the pen on the base line; top is upwards
    float u, v;                     // its upper left in the picture, in pixels
    float advance;
  };

  Atlas();
  static constexpr uint32_t width = 512;
  uint32_t height() const { return static_cast<uint32_t>(pixels_.size()) / width; }
  const std::vector<uint8_t>& pixels() const { return pixels_; }

  // A stand-in where the font has no such letter.
  const Letter& letter(uint32_t size, uint32_t code) const;
  float text_width(uint32_t size, std::string_view utf8) const;
  // The middle of a white pixel, for what is not text.
  static constexpr float white = 0.5f;

private:
  std::map<std::pair<uint32_t, uint32_t>, Letter> letters_; // by size and code
  std::vector<uint8_t> pixels_;
};

// The first character of a text, which is taken off it; U+FFFD for what is not UTF-8.
uint32_t take_character(std::string_view& utf8);

} // namespace npc
