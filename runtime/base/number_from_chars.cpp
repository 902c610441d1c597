#include "base/number_from_chars.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "base/ascii.h"

namespace pumice {

namespace {

const char* after_digits(const char* at, const char* end) {
  while (at != end && *at >= '0' && *at <= '9') ++at;
  return at;
}

// The length of what may follow a nan: "(abc)".
size_t payload(std::string_view text) {
  if (text.empty() || text[0] != '(') return 0;
  const auto is_part = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (lower_case(c) >= 'a' && lower_case(c) <= 'z');
  };
  size_t at = 1;
  while (at < text.size() && is_part(text[at])) ++at;
  return at < text.size() && text[at] == ')' ? at + 1 : 0;
}

// Where the number ends that begins there; `begin` if none does.
const char* end_of_number(const char* begin, const char* end) {
  const char* at = begin;
  if (at != end && *at == '-') ++at;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  for (const std::string_view word : {"infinity", "inf", "nan"})
    if (lower_case(rest.substr(0, word.size())) == word)
      return at + word.size() + (word == "nan" ? payload(rest.substr(word.size())) : 0);
  const char* const whole = at;
  at = after_digits(at, end);
  const bool has_point = at != end && *at == '.';
  const char* const behind = has_point ? after_digits(at + 1, end) : at;
  if (behind - whole == has_point) return begin; // not a digit
  at = behind;
  if (at == end || lower_case(*at) != 'e') return at;
  const char* power = at + 1;
  if (power != end && (*power == '+' || *power == '-')) ++power;
  const char* const last = after_digits(power, end);
  return last == power ? at : last;
}

void convert(const char* text, float& number) {
  number = std::strtof(text, nullptr);
}

void convert(const char* text, double& number) {
  number = std::strtod(text, nullptr);
}

// The point of the program's locale, which the C library expects. localeconv() is not safe among threads.
std::string point_of_locale() {
  char text[16];
  const int size = std::snprintf(text, sizeof text, "%.1f", 0.5);
  return {text + 1, text + size - 1};
}

template <class T>
std::from_chars_result read(const char* begin, const char* end, T& number) {
  const char* const last = end_of_number(begin, end);
  if (last == begin) return {begin, std::errc::invalid_argument};
  std::string text(begin, last);
  const bool is_word = last[-1] > '9' || last[-1] == ')'; // inf or nan
  const bool is_zero = text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == text.npos;
  if (const size_t point = text.find('.'); point != text.npos) text.replace(point, 1, point_of_locale());
  T value = 0;
  convert(text.c_str(), value);
  if (!is_word && (std::isinf(value) || (value == 0 && !is_zero)))
    return {last, std::errc::result_out_of_range};
  number = value;
  return {last, std::errc()};
}

} // namespace

std::from_chars_result read_decimal(const char* begin, const char* end, float& number) {
  return read(begin, end, number);
}

std::from_chars_result read_decimal(const char* begin, const char* end, double& number) {
  return read(begin, end, number);
}

} // namespace pumice
