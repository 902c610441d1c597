#include "text/jinja/characters.h"

#include <algorithm>

#include <utf8proc.h>

#include "text/jinja/failure.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

bool contains(std::u32string_view set, char32_t value) {
  return set.find(value) != std::u32string_view::npos;
}

// Charges for what it compares: a text of one letter has the beginning of another such text everywhere.
bool is_at(std::string_view text, size_t at, std::string_view sought) {
  const std::string_view part = text.substr(at, sought.size());
  const auto differs = std::mismatch(part.begin(), part.end(), sought.begin()).first;
  charge_text(static_cast<size_t>(differs - part.begin()));
  return part.size() == sought.size() && differs == part.end();
}

bool is_line_end(char32_t value) {
  return (value >= 0x0A && value <= 0x0D) || (value >= 0x1C && value <= 0x1E) || value == 0x85 ||
         value == 0x2028 || value == 0x2029;
}

bool has_case(char32_t value) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

void append_lower(std::string& result, char32_t value) {
  append_code_point(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
  if (value == 0x130) append_code_point(result, 0x307); // the only one that becomes two
}

void append_upper(std::string& result, char32_t value) {
  if (value == 0xDF) {
    result += "SS";
  } else {
    append_code_point(result, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(value))));
  }
}

template <class Append>
std::string mapped(std::string_view text, const Append& append) {
  charge(text.size() / 4);
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append(result, point.value);
    text.remove_prefix(point.length);
  }
  return result;
}

// The pieces between white space, from the left.
Items split_at_spaces(std::string_view text, Integer most) {
  Items pieces;
  text = strip(text, Side::left);
  while (!text.empty()) {
    if (most >= 0 && Integer(pieces.size()) >= most) {
      pieces.emplace_back(strip(text, Side::right));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint point = first_code_point(text.substr(end));
      if (is_python_space(point.value)) break;
      end += point.length;
    }
    pieces.emplace_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return pieces;
}

Items split_at_spaces_from_right(std::string_view text, Integer most) {
  Items pieces;
  text = strip(text, Side::right);
  while (!text.empty()) {
    if (most >= 0 && Integer(pieces.size()) >= most) {
      pieces.emplace_back(strip(text, Side::left));
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const CodePoint point = last_code_point(text.substr(0, begin));
      if (is_python_space(point.value)) break;
      begin -= point.length;
    }
    pieces.emplace_back(text.substr(begin));
    text = strip(text.substr(0, begin), Side::right);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

} // namespace

size_t find(std::string_view text, std::string_view sought) {
  charge_text(text.size());
  if (sought.empty()) return 0;
  for (size_t at = 0; (at = text.find(sought[0], at)) != std::string::npos; ++at) {
    if (is_at(text, at, sought)) return at;
  }
  return std::string::npos;
}

size_t find_last(std::string_view text, std::string_view sought) {
  charge_text(text.size());
  if (sought.empty()) return text.size();
  for (size_t at = text.size(); at > 0 && (at = text.rfind(sought[0], at - 1)) != std::string::npos;) {
    if (is_at(text, at, sought)) return at;
  }
  return std::string::npos;
}

size_t count_characters(std::string_view text) {
  charge_text(text.size());
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::vector<std::string_view> characters_of(std::string_view text) {
  charge(text.size() / 4);
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const size_t length = first_code_point(text).length;
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

std::u32string code_points_of(std::string_view text) {
  charge(text.size() / 4);
  std::u32string points;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    points += point.value;
    text.remove_prefix(point.length);
  }
  return points;
}

size_t byte_of_character(std::string_view text, size_t index) {
  charge_text(std::min(text.size(), index));
  size_t byte = 0;
  for (; byte < text.size(); ++byte) {
    if (begins_character(text[byte]) && index-- == 0) return byte;
  }
  return byte;
}

bool is_python_space(char32_t value) {
  return is_white_space(value) || (value >= 0x1C && value <= 0x1F);
}

bool is_printable(char32_t value) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return false;
  case UTF8PROC_CATEGORY_ZS:
    return value == ' ';
  default:
    return true;
  }
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> of) {
  const std::u32string set = of ? code_points_of(*of) : std::u32string();
  const auto goes = [&](char32_t value) {
    charge(1 + set.size() / 16);
    return of ? contains(set, value) : is_python_space(value);
  };
  while (side != Side::right && !text.empty() && goes(first_code_point(text).value))
    text.remove_prefix(first_code_point(text).length);
  while (side != Side::left && !text.empty() && goes(last_code_point(text).value))
    text.remove_suffix(last_code_point(text).length);
  return text;
}

Items split(std::string_view text, std::optional<std::string_view> separator, Integer most) {
  if (!separator) return split_at_spaces(text, most);
  if (separator->empty()) fail("empty separator");
  Items pieces;
  size_t at;
  while ((most < 0 || Integer(pieces.size()) < most) && (at = find(text, *separator)) != std::string::npos) {
    pieces.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  pieces.emplace_back(text);
  return pieces;
}

Items split_from_right(std::string_view text, std::optional<std::string_view> separator, Integer most) {
  if (!separator) return split_at_spaces_from_right(text, most);
  if (separator->empty()) fail("empty separator");
  Items pieces;
  size_t at;
  while ((most < 0 || Integer(pieces.size()) < most) &&
         (at = find_last(text, *separator)) != std::string::npos) {
    pieces.emplace_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  pieces.emplace_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Items split_lines(std::string_view text, bool keep_ends) {
  Items lines;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.substr(at));
    if (!is_line_end(point.value)) {
      at += point.length;
      continue;
    }
    const size_t end = at;
    at += text.substr(at).starts_with("\r\n") ? 2 : point.length;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replace(std::string_view text, std::string_view old, std::string_view by, Integer most) {
  std::string result;
  if (old.empty()) { // Python puts it before each character, and at the end
    for (std::string_view character : characters_of(text)) {
      charge_text(by.size());
      if (most != 0) result += by, --most;
      result += character;
    }
    if (most != 0) result += by;
    return result;
  }
  size_t at;
  while (most != 0 && (at = find(text, old)) != std::string::npos) {
    charge_text(by.size());
    result.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + old.size());
    --most;
  }
  return result.append(text);
}

bool is_all(std::string_view text, Letters letters) {
  bool any = false;
  for (char32_t point : code_points_of(text)) {
    if (!has_case(point)) continue;
    const bool is_lower = utf8proc_category(static_cast<utf8proc_int32_t>(point)) == UTF8PROC_CATEGORY_LL;
    if (is_lower != (letters == Letters::lower)) return false;
    any = true;
  }
  return any;
}

std::string lower(std::string_view text) {
  // A capital sigma at the end of a word becomes another letter than elsewhere.
  charge(text.size() / 4);
  bool after_letter = false;
  std::string result;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    text.remove_prefix(point.length);
    const bool word_ends = text.empty() || !has_case(first_code_point(text).value);
    if (point.value == 0x3A3 && after_letter && word_ends) {
      append_code_point(result, 0x3C2);
    } else {
      append_lower(result, point.value);
    }
    after_letter = has_case(point.value);
  }
  return result;
}

std::string upper(std::string_view text) {
  return mapped(text, append_upper);
}

std::string capitalize(std::string_view text) {
  const size_t head = byte_of_character(text, 1);
  return upper(text.substr(0, head)) + lower(text.substr(head));
}

std::string title(std::string_view text) {
  bool after_letter = false;
  return mapped(text, [&](std::string& result, char32_t value) {
    after_letter ? append_lower(result, value) : append_upper(result, value);
    after_letter = has_case(value);
  });
}

} // namespace pumice::text::jinja
