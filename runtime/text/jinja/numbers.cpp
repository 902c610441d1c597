#include "text/jinja/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/number_from_chars.h"
#include "text/jinja/characters.h"
#include "text/jinja/failure.h"

namespace pumice::text::jinja {

namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Takes the prefix 0x, 0o or 0b away where it goes with the base. Returns the base, 10 for none.
int take_prefix(std::string_view& text, int base) {
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named && (base == 0 || base == named)) {
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
      return named;
    }
  }
  return base == 0 ? 10 : base;
}

// Without the underscores that stand between two digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  charge(text.size() / 4);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between =
        i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 99 && digit_value(text[i + 1]) < 99;
    if (text[i] != '_') {
      digits += text[i];
    } else if (!between) {
      return std::nullopt;
    }
  }
  return digits;
}

[[noreturn]] void fail_large() {
  fail("an integer is larger than 127 bits");
}

} // namespace

std::optional<Integer> read_integer(std::string_view text, int base) {
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int radix = take_prefix(text, base);
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  const bool zero = std::all_of(digits->begin(), digits->end(), [](char c) { return c == '0'; });
  if (base == 0 && radix == 10 && (*digits)[0] == '0' && !zero) return std::nullopt;
  Integer value = 0;
  for (char c : *digits) {
    const int digit = digit_value(c);
    if (digit >= radix || value > (largest_integer - digit) / radix) return std::nullopt;
    value = value * radix + digit;
  }
  return negative ? -value : value;
}

std::optional<double> read_float(std::string_view text) {
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty() || (*digits)[0] == '-' || (*digits)[0] == '+') return std::nullopt;
  double value = 0;
  const char* end = digits->data() + digits->size();
  const auto [stop, error] = number_from_chars(digits->data(), end, value);
  if (stop != end || digits->find('(') != std::string::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const size_t exponent = digits->find_first_of("eE");
    const bool tiny =
        exponent != std::string::npos && exponent + 1 < digits->size() && (*digits)[exponent + 1] == '-';
    value = tiny ? 0 : HUGE_VAL;
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::string write_integer(Integer value, int base) {
  std::string text; // from the last digit to the first
  Integer rest = value;
  do {
    const int digit = std::abs(static_cast<int>(rest % base));
    text += static_cast<char>(digit < 10 ? '0' + digit : 'a' + digit - 10);
    rest = rest / base;
  } while (rest != 0);
  if (value < 0) text += '-';
  return {text.rbegin(), text.rend()};
}

std::string write_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The fewest digits that are read back as the same number. Python writes an exponent below 1e-4 and from
  // 1e16.
  const double size = std::fabs(value);
  std::array<char, 64> buffer;
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), written.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

Integer add(Integer left, Integer right) {
  if (right > 0 ? left > largest_integer - right : left < smallest_integer - right) fail_large();
  return left + right;
}

Integer subtract(Integer left, Integer right) {
  if (right < 0 ? left > largest_integer + right : left < smallest_integer + right) fail_large();
  return left - right;
}

Integer multiply(Integer left, Integer right) {
  if (left == 0 || right == 0) return 0;
  const Integer product = left * right;
  // What wrapped around does not divide back; the smallest number is its own negative.
  if (product / right != left || (right == -1 && left == smallest_integer)) fail_large();
  return product;
}

} // namespace pumice::text::jinja
