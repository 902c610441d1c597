#pragma once

#include <optional>
#include <string>
#include <string_view>

// GPT-2's encoding of bytes as printable characters. A printable byte is the character with its number; the
// other 68 bytes are U+0100 and the characters after it, in order (so a space is "Ġ").
namespace pumice::text {

// Appends one character for each byte of the caller's text, which is given as escaped UTF-8 (unicode.h).
void append_byte_level(std::string& out, std::string_view escaped);

// The reverse. Returns nothing if the text holds a character that stands for no byte.
std::optional<std::string> bytes_of_byte_level(std::string_view text);

} // namespace pumice::text
