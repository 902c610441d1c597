#include "text/unicode/byte_level.h"

#include <array>

#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

constexpr int kHighest = 0x143; // the character of the last of the 68 bytes

struct Tables {
  std::array<char16_t, 256> character{};
  std::array<int16_t, kHighest + 1> byte{};

  constexpr Tables() {
    for (int16_t& b : byte) b = -1;
    char16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = printable ? static_cast<char16_t>(b) : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Tables kTables;

} // namespace

void append_byte_level(std::string& out, std::string_view escaped) {
  while (!escaped.empty()) {
    CodePoint point = first_code_point(escaped);
    if (auto raw = escaped_byte(point.value)) {
      append_code_point(out, kTables.character[*raw]);
    } else {
      for (uint32_t i = 0; i < point.length; ++i) {
        append_code_point(out, kTables.character[static_cast<unsigned char>(escaped[i])]);
      }
    }
    escaped.remove_prefix(point.length);
  }
}

std::optional<std::string> bytes_of_byte_level(std::string_view text) {
  if (!is_valid_utf8(text)) return std::nullopt;
  std::string bytes;
  while (!text.empty()) {
    CodePoint point = first_code_point(text);
    if (point.value > kHighest || kTables.byte[point.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kTables.byte[point.value]));
    text.remove_prefix(point.length);
  }
  return bytes;
}

} // namespace pumice::text
