#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// UTF-8 and Unicode's properties of characters.
//
// Inside text/, a string is "escaped" UTF-8: valid, except that a byte that was not part of a character in
// the caller's text is written as U+DC80 + (byte - 0x80), a lone surrogate, which valid UTF-8 cannot hold. So
// code can iterate over characters without checks, no step sees half a character, and the model can restore
// the byte.
namespace pumice::text {

enum class Utf8 { whole, cut_off, broken };

struct Utf8Head {
  Utf8 kind;
  size_t length; // of the character, or else of the longest prefix that could begin one (at least 1)
};

// Examines the start of a non-empty string. A surrogate is broken.
Utf8Head utf8_head(std::string_view bytes);

bool is_valid_utf8(std::string_view bytes);

// Converts any bytes to escaped UTF-8. Valid UTF-8 stays the same.
std::string escape_bytes(std::string_view bytes);

// The reverse: returns the caller's bytes.
std::string unescape_bytes(std::string_view escaped);

// A code point of an escaped string, and its length in bytes.
struct CodePoint {
  char32_t value;
  uint32_t length;
};
// Of a non-empty string.
CodePoint first_code_point(std::string_view escaped);
CodePoint last_code_point(std::string_view escaped);

void append_code_point(std::string& text, char32_t value);

// The byte that a code point stands for, if it is an escape.
inline std::optional<uint8_t> escaped_byte(char32_t value) {
  if (value < 0xDC80 || value > 0xDCFF) return std::nullopt;
  return static_cast<uint8_t>(value - 0xDC00);
}

bool is_white_space(char32_t value); // White_Space
// What templates and JSON call white space.
inline constexpr std::string_view ascii_white_space = " \t\r\n";
std::string_view trimmed(std::string_view text); // without it around
bool is_number(char32_t value);                  // Nd, Nl, No
// P*, and every ASCII character that is not a letter, a digit, a space or a control character.
bool is_punctuation(char32_t value);
bool is_control(char32_t value); // Cc, Cf, Co
bool is_chinese(char32_t value); // a CJK ideograph, as BERT counts them
bool is_word(char32_t value);    // \w: letters, numbers, marks, connector punctuation, joiners

// Joins bytes into characters. Bytes that form no character become U+FFFD.
class Utf8Assembler {
public:
  // The number of U+FFFD: one for each byte, or one for each sequence that could begin a character.
  enum class Broken { each_byte, each_sequence };
  explicit Utf8Assembler(Broken broken) : broken_(broken) {}

  void push(std::string_view bytes, std::string& out); // appends all complete characters
  void finish(std::string& out);

private:
  void replace(size_t bytes, std::string& out) const;

  Broken broken_;
  std::string held_;
};

} // namespace pumice::text
