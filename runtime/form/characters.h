#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pumice::form {

// Code points from `first` to `last`.
struct CharacterRange {
  char32_t first = 0, last = 0;
  bool operator==(const CharacterRange&) const = default;
};

// A set of code points: sorted ranges that do not touch, without surrogates.
using Characters = std::vector<CharacterRange>;

inline constexpr char32_t last_character = 0x10FFFF;

// Special tokens are characters beyond Unicode's, so that no text spells one.
inline constexpr char32_t first_special = last_character + 1, last_special = 0x1FFFFF;
inline Characters special_character(uint32_t token) {
  if (token > last_special - first_special) return {};
  return {{first_special + token, first_special + token}};
}
// Its bytes; empty for a token that is none of them.
std::string special_bytes(uint32_t token);
bool is_special(std::string_view bytes);

Characters any_character();
Characters united(std::vector<CharacterRange> ranges); // in any order
Characters all_but(const Characters& left_out);
Characters common(const Characters& a, const Characters& b);

// Bytes that follow each other: a value from each range, in order.
struct ByteRange {
  uint8_t first = 0, last = 0;
};
using ByteSequence = std::vector<ByteRange>;

// The UTF-8 of a set of code points: what is in it is in exactly one of these.
std::vector<ByteSequence> utf8_of(const Characters& characters);

} // namespace pumice::form
