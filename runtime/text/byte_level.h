#pragma once

#include <optional>
#include <string>
#include <string_view>

// GPT-2's way of writing any bytes as printable characters: those that are printable stand for themselves,
// the other 68 for U+0100 and on, in order (so a space is "Ġ").
namespace pumice::text {

// Escaped UTF-8 → one character for each byte of the text the caller gave.
void append_byte_level(std::string& out, std::string_view escaped);

// The way back. Nothing if the text holds a character that stands for no byte.
std::optional<std::string> bytes_of_byte_level(std::string_view text);

} // namespace pumice::text
