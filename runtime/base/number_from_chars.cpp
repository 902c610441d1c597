#include "base/number_from_chars.h"

#include <clocale>
#include <cmath>
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

// Where the number ends that begins there; `begin` if none does.
const char* end_of_number(const char* begin, const char* end) {
  const char* at = begin;
  if (at != end && *at == '-') ++at;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  for (const std::string_view word : {"infinity", "inf", "nan"})
    if (lower_case(rest.substr(0, word.size())) == word) return at + word.size();
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

template <class T>
std::from_chars_result read(const char* begin, const char* end, T& number) {
  const char* const last = end_of_number(begin, end);
  if (last == begin) return {begin, std::errc::invalid_argument};
  std::string text(begin, last);
  const bool is_word = last[-1] > '9'; // a letter: inf or nan
  const bool is_zero = text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == text.npos;
  // The C library expects the point of the program's locale.
  if (const size_t point = text.find('.'); point != text.npos)
    text.replace(point, 1, std::localeconv()->decimal_point);
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
