#include "text/chat/loose_values.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "base/ascii.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

using nlohmann::ordered_json;

constexpr size_t most_levels = 64; // of lists and objects within each other
constexpr std::string_view gemma_quote = "<|\"|>";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A number as JSON or Python spells it.
LooseReader::Value number_of(std::string text) {
  if (text.starts_with('+')) text.erase(0, 1);
  const auto before_line = [](char c) { // 1_000, 0x_FF
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || lower_case(c) == 'x' || lower_case(c) == 'o';
  };
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '_' && before_line(text[i - 1])) text.erase(i, 1);
  }
  const bool negative = text.starts_with('-');
  std::string digits = text.substr(negative);
  if (digits.size() > 2 && digits[0] == '0' && !is_digit(digits[1]) && digits[1] != '.' &&
      lower_case(digits[1]) != 'e') {
    const char kind = lower_case(digits[1]);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (base == 0 || !std::isxdigit(static_cast<unsigned char>(digits[2]))) return std::nullopt;
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(digits.c_str() + 2, &end, base);
    if (*end != 0 || errno == ERANGE || (negative && value > INT64_MAX)) return std::nullopt;
    if (negative) return -static_cast<int64_t>(value);
    return value;
  }
  if (digits.starts_with('.')) digits.insert(0, "0");
  if (const size_t dot = digits.find('.'); dot != std::string::npos) {
    if (dot + 1 == digits.size() || !is_digit(digits[dot + 1])) digits.insert(dot + 1, "0");
  }
  ordered_json value = ordered_json::parse((negative ? "-" : "") + digits, nullptr, false);
  if (!value.is_number()) return std::nullopt;
  return value;
}

} // namespace

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

bool LooseReader::skip(std::string_view expected) {
  text_.remove_prefix(std::min(text_.find_first_not_of(ascii_white_space), text_.size()));
  // A comment, up to the end of its line, or a backslash before that.
  while (python_ && (text_.starts_with('#') || text_.starts_with("\\\n"))) {
    text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
    text_.remove_prefix(std::min(text_.find_first_not_of(ascii_white_space), text_.size()));
  }
  if (python_ && text_ == "\\") text_ = {}; // the end of the line has not arrived
  if (!text_.starts_with(expected)) return false;
  text_.remove_prefix(expected.size());
  return true;
}

bool LooseReader::ended() {
  skip("");
  return text_.empty();
}

std::string LooseReader::word() {
  skip("");
  const auto end = std::find_if_not(text_.begin(), text_.end(), [](char c) {
    return is_name_character(c) || static_cast<unsigned char>(c) >= 0x80; // names of any language
  });
  std::string word(text_.begin(), end);
  text_.remove_prefix(word.size());
  return word;
}

LooseReader::Value LooseReader::python_arguments(const ordered_json& properties) {
  python_ = true;
  ordered_json arguments = ordered_json::object();
  auto next = properties.begin();
  while (!skip(")")) {
    if (skip("**")) { // all at once
      const Value all = value();
      if (!all || !all->is_object()) return std::nullopt;
      arguments.update(*all);
      if (!skip(",") && !text_.starts_with(')')) return std::nullopt;
      continue;
    }
    if (text_ == "*") text_ = {}; // the second has not arrived
    const std::string_view before = text_;
    const std::string name = word();
    std::string key = name;
    if (name.empty() || !(skip("=") || skip(":"))) {
      if (ended() || next == properties.end()) return std::nullopt;
      text_ = before;
      key = next.key();
      ++next;
    }
    Value each = value();
    if (!each) return std::nullopt;
    arguments[key] = *std::move(each);
    if (!skip(",") && !text_.starts_with(')')) return std::nullopt;
  }
  return arguments;
}

LooseReader::Value LooseReader::value() {
  skip("");
  if (gemma_quote.starts_with(text_.substr(0, gemma_quote.size())) || begins_string()) return string();
  if (text_.find_first_of("[{(") != 0) return word_or_number();
  if (depth_ == most_levels) return std::nullopt;
  ++depth_;
  Value nested = skip("[") ? items("]") : skip("(") ? items(")") : object_or_set();
  --depth_;
  return nested;
}

// Of a list or a tuple. One value in parentheses is that value.
LooseReader::Value LooseReader::items(std::string_view end) {
  ordered_json items = ordered_json::array();
  bool comma = false;
  while (!skip(end)) {
    Value each = value();
    if (!each) return std::nullopt;
    items.push_back(*std::move(each));
    const bool more = skip(",");
    comma = comma || more;
    if (!more && !text_.starts_with(end)) return std::nullopt;
  }
  if (end == ")" && items.size() == 1 && !comma) return ordered_json(items[0]);
  return items;
}

LooseReader::Value LooseReader::object_or_set() {
  skip("{");
  ordered_json object = ordered_json::object(), set = ordered_json::array();
  while (!skip("}")) {
    const std::string_view before = text_;
    const Value key = begins_string() || text_.starts_with('<') ? string() : word();
    if (!key) return std::nullopt;
    const bool named = set.empty() && skip(":");
    if (!named && (!python_ || !object.empty())) return std::nullopt;
    if (!named) text_ = before;
    Value each = value();
    if (!each) return std::nullopt;
    (named ? object[key->get_ref<const std::string&>()] : set.emplace_back()) = *std::move(each);
    if (!skip(",") && !text_.starts_with('}')) return std::nullopt;
  }
  return set.empty() ? object : set;
}

LooseReader::Value LooseReader::word_or_number() {
  size_t length = 0;
  while (length < text_.size() && (is_name_character(text_[length]) || text_[length] == '+')) ++length;
  const std::string given(text_.substr(0, length));
  text_.remove_prefix(length);
  if (given.empty()) return std::nullopt;
  if (is_digit(given[0]) || given.find_first_of("+-.") == 0) return number_of(given);
  if (given == "true" || given == "True") return true;
  if (given == "false" || given == "False") return false;
  if (given == "null" || given == "None") return ordered_json();
  return python_ && text_.starts_with('(') ? made_by(given) : std::nullopt;
}

// dict(a=1), list(...), tuple(...) and set(...), of a list or of nothing.
LooseReader::Value LooseReader::made_by(std::string_view type) {
  constexpr std::string_view lists[] = {"list", "tuple", "set", "frozenset"};
  const bool list = std::ranges::find(lists, type) != std::end(lists);
  if ((!list && type != "dict") || depth_ == most_levels) return std::nullopt;
  skip("(");
  if (skip(")")) return list ? ordered_json::array() : ordered_json::object();
  ++depth_;
  Value made;
  if (list || text_.starts_with('{')) { // dict({"a": 1})
    made = value();
    if (made && (made->is_array() != list || !skip(")"))) made.reset();
  } else {
    made = python_arguments(ordered_json::object());
  }
  --depth_;
  return made;
}

// Whether a quote comes, or letters that say what kind of string it is in Python.
bool LooseReader::begins_string() const {
  const size_t quote = text_.find_first_of("\"'");
  const std::string_view kind = text_.substr(0, std::min(quote, text_.size()));
  return quote <= 2 && kind.find_first_not_of("rRbBuUfF") == std::string_view::npos;
}

// Strings beside each other are one string.
LooseReader::Value LooseReader::string() {
  std::string whole;
  do {
    if (skip(gemma_quote)) {
      return text_until(gemma_quote, true);
    }
    const size_t at = text_.find_first_of("\"'");
    if (at == std::string_view::npos) {
      text_ = {};
      return std::nullopt;
    }
    const std::string_view kind = text_.substr(0, at);
    const bool raw = kind.find_first_of("rR") != std::string_view::npos;
    const bool computed = kind.find_first_of("fF") != std::string_view::npos; // where there are braces
    text_.remove_prefix(at);
    const std::string quote(python_ && text_.substr(0, 3) == std::string(3, text_[0]) ? 3 : 1, text_[0]);
    text_.remove_prefix(quote.size());
    const std::optional<std::string> part = text_until(quote, raw);
    if (!part || (computed && part->find('{') != std::string::npos)) return std::nullopt;
    whole += *part;
    skip("");
  } while (python_ && begins_string());
  return whole;
}

std::optional<std::string> LooseReader::text_until(std::string_view quote, bool raw) {
  std::string text;
  while (!text_.empty()) {
    if (text_.starts_with(quote)) {
      text_.remove_prefix(quote.size());
      if (!is_valid_utf8(text)) return std::nullopt;
      return text;
    }
    const char c = text_[0];
    text_.remove_prefix(1);
    if (c != '\\') {
      text += c;
    } else if (raw) {
      text += c;
      if (!text_.empty()) text += text_[0];
      text_.remove_prefix(std::min<size_t>(1, text_.size()));
    } else if (!escape(text)) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool LooseReader::hexadecimal(size_t digits, char32_t& value) {
  const std::string_view given = text_.substr(0, digits);
  if (given.size() < digits ||
      !std::ranges::all_of(given, [](unsigned char c) { return std::isxdigit(c) != 0; }))
    return false;
  value = static_cast<char32_t>(std::stoul(std::string(given), nullptr, 16));
  text_.remove_prefix(digits);
  return true;
}

// What follows a backslash. One that begins no escape stays, as in Python.
bool LooseReader::escape(std::string& out) {
  if (text_.empty()) return false;
  const char c = text_[0];
  text_.remove_prefix(1);
  char32_t value = 0;
  constexpr std::string_view letters = "bfnrtav", meant = "\b\f\n\r\t\a\v";
  const size_t letter = letters.substr(0, python_ ? letters.size() : 5).find(c);
  if (letter != std::string_view::npos) {
    out += meant[letter];
  } else if (c == '\\' || c == '"' || c == '\'' || (c == '/' && !python_)) {
    out += c;
  } else if (c == 'u' && hexadecimal(4, value)) {
    char32_t low = 0;
    const std::string_view before = text_;
    if (value >= 0xD800 && value < 0xDC00 && text_.starts_with("\\u")) {
      text_.remove_prefix(2);
      if (hexadecimal(4, low) && low >= 0xDC00 && low < 0xE000) {
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
      } else {
        text_ = before;
      }
    }
    append_code_point(out, value >= 0xD800 && value < 0xE000 ? 0xFFFD : value);
  } else if (python_ && c == 'U' && hexadecimal(8, value)) {
    append_code_point(out, value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ? 0xFFFD : value);
  } else if (python_ && c == 'x' && hexadecimal(2, value)) {
    append_code_point(out, value);
  } else if (python_ && c >= '0' && c <= '7') {
    value = static_cast<char32_t>(c - '0');
    for (size_t i = 0; i < 2 && !text_.empty() && text_[0] >= '0' && text_[0] <= '7'; ++i) {
      value = value * 8 + static_cast<char32_t>(text_[0] - '0');
      text_.remove_prefix(1);
    }
    append_code_point(out, value);
  } else if (!(python_ && c == '\n')) {
    (out += '\\') += c;
  }
  return true;
}

} // namespace pumice::text
