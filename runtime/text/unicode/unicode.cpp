#include "text/unicode/unicode.h"

#include <algorithm>
#include <cstring>

#include <utf8proc.h>

namespace pumice::text {

namespace {

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// The second byte shows whether a character is overlong, a surrogate or above U+10FFFF.
bool is_second(unsigned char first, unsigned char second) {
  switch (first) {
  case 0xE0:
    return second >= 0xA0 && second <= 0xBF;
  case 0xED:
    return second >= 0x80 && second <= 0x9F;
  case 0xF0:
    return second >= 0x90 && second <= 0xBF;
  case 0xF4:
    return second >= 0x80 && second <= 0x8F;
  default:
    return is_continuation(second);
  }
}

// The length of the longest ASCII prefix.
size_t ascii_length(std::string_view bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at;
}

// The length of the longest prefix that is valid UTF-8.
size_t valid_length(std::string_view bytes) {
  size_t at = 0;
  while (true) {
    at += ascii_length(bytes.substr(at));
    if (at == bytes.size()) return at;
    Utf8Head head = utf8_head(bytes.substr(at));
    if (head.kind != Utf8::whole) return at;
    at += head.length;
  }
}

utf8proc_category_t category(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

} // namespace

Utf8Head utf8_head(std::string_view bytes) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return {Utf8::whole, 1};
  if (first < 0xC2 || first > 0xF4) return {Utf8::broken, 1};
  size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8::cut_off, i};
    if (i == 1 ? !is_second(first, byte(i)) : !is_continuation(byte(i))) return {Utf8::broken, i};
  }
  return {Utf8::whole, length};
}

bool is_valid_utf8(std::string_view bytes) {
  return valid_length(bytes) == bytes.size();
}

std::string escape_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    size_t valid = valid_length(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    size_t broken = utf8_head(bytes).length;
    for (size_t i = 0; i < broken; ++i) {
      append_code_point(text, 0xDC00u + static_cast<unsigned char>(bytes[i]));
    }
    bytes.remove_prefix(broken);
  }
}

std::string unescape_bytes(std::string_view escaped) {
  std::string bytes;
  bytes.reserve(escaped.size());
  while (!escaped.empty()) {
    const CodePoint point = first_code_point(escaped);
    if (auto byte = escaped_byte(point.value)) {
      bytes.push_back(static_cast<char>(*byte));
    } else {
      bytes.append(escaped.substr(0, point.length));
    }
    escaped.remove_prefix(point.length);
  }
  return bytes;
}

CodePoint first_code_point(std::string_view escaped) {
  auto byte = [&](size_t i) -> char32_t { return static_cast<unsigned char>(escaped[i]); };
  char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0 && escaped.size() >= 2) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0 && escaped.size() >= 3) {
    return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  }
  if (escaped.size() >= 4) {
    return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
  }
  return {0xFFFD, 1};
}

CodePoint last_code_point(std::string_view escaped) {
  size_t at = escaped.size() - 1;
  while (at > 0 && is_continuation(static_cast<unsigned char>(escaped[at]))) --at;
  return first_code_point(escaped.substr(at));
}

void append_code_point(std::string& text, char32_t value) {
  auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | (value >> shift & 0x3F))); };
  if (value < 0x80) {
    text.push_back(static_cast<char>(value));
  } else if (value < 0x800) {
    text.push_back(static_cast<char>(0xC0 | value >> 6));
    tail(0);
  } else if (value < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | value >> 12));
    tail(6), tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | value >> 18));
    tail(12), tail(6), tail(0);
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(ascii_white_space), text.size());
  return text.substr(begin, text.find_last_not_of(ascii_white_space) + 1 - begin);
}

bool is_white_space(char32_t value) {
  if (value < 0x80) return value == ' ' || (value >= 0x09 && value <= 0x0D);
  switch (value) {
  case 0x85:
  case 0xA0:
  case 0x1680:
  case 0x2028:
  case 0x2029:
  case 0x202F:
  case 0x205F:
  case 0x3000:
    return true;
  default:
    return value >= 0x2000 && value <= 0x200A;
  }
}

bool is_number(char32_t value) {
  utf8proc_category_t c = category(value);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t value) {
  if (value < 0x80) {
    return (value >= 33 && value <= 47) || (value >= 58 && value <= 64) || (value >= 91 && value <= 96) ||
           (value >= 123 && value <= 126);
  }
  utf8proc_category_t c = category(value);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_control(char32_t value) {
  utf8proc_category_t c = category(value);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool is_chinese(char32_t value) {
  auto within = [value](char32_t first, char32_t last) { return value >= first && value <= last; };
  // The sixth range begins as in the reference implementation, not where Unicode's block begins.
  return within(0x4E00, 0x9FFF) || within(0x3400, 0x4DBF) || within(0x20000, 0x2A6DF) ||
         within(0x2A700, 0x2B73F) || within(0x2B740, 0x2B81F) || within(0x2B920, 0x2CEAF) ||
         within(0xF900, 0xFAFF) || within(0x2F800, 0x2FA1F);
}

bool is_word(char32_t value) {
  if (value == 0x200C || value == 0x200D) return true; // Join_Control
  utf8proc_category_t c = category(value);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NO) || c == UTF8PROC_CATEGORY_PC;
}

void Utf8Assembler::replace(size_t bytes, std::string& out) const {
  size_t count = broken_ == Broken::each_byte ? bytes : 1;
  while (count-- > 0) out += "\xEF\xBF\xBD";
}

void Utf8Assembler::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    held_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (true) {
    size_t valid = valid_length(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    Utf8Head head = utf8_head(bytes);
    if (head.kind == Utf8::cut_off) {
      held_ = bytes;
      return;
    }
    replace(head.length, out);
    bytes.remove_prefix(head.length);
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (!held_.empty()) replace(held_.size(), out);
  held_.clear();
}

} // namespace pumice::text
