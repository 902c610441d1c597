#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/result.h"
#include "form/characters.h"
#include "text/unicode/unicode.h"

namespace pumice::form {

// Reads a regular expression or a grammar, character by character.
class SourceReader {
public:
  // `what` begins errors: "the regular expression".
  SourceReader(std::string_view source, std::string what) : source_(source), what_(std::move(what)) {}

  bool at_end() const { return at_ == source_.size(); }
  size_t position() const { return at_; }
  void go_to(size_t position) { at_ = position; }
  std::string_view rest() const { return source_.substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  bool sees_one_of(std::string_view bytes) const {
    return !at_end() && bytes.find(source_[at_]) != std::string_view::npos;
  }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  // Passes spaces and tabs, ends of lines if `over_lines`, and what begins with one of the marks, up to the
  // end of its line.
  void space(bool over_lines, std::initializer_list<std::string_view> comments) {
    const auto begins = [this](std::string_view mark) { return sees(mark); };
    for (;;) {
      if (std::ranges::any_of(comments, begins)) {
        while (!at_end() && !sees_one_of("\r\n")) character();
      } else if (sees_one_of(over_lines ? " \t\r\n" : " \t")) {
        character();
      } else {
        return;
      }
    }
  }
  // Not at the end.
  char32_t character() {
    const text::CodePoint point = text::first_code_point(rest());
    at_ += point.length;
    return point.value;
  }
  // Exactly so many hexadecimal digits.
  std::optional<char32_t> hexadecimal(size_t digits) {
    if (rest().size() < digits) return std::nullopt;
    char32_t value = 0;
    for (const char c : rest().substr(0, digits)) {
      const size_t digit = std::string_view("0123456789ABCDEF0123456789abcdef").find(c);
      if (digit == std::string_view::npos) return std::nullopt;
      value = 16 * value + static_cast<char32_t>(digit % 16);
    }
    at_ += digits;
    return value;
  }
  // Digits, if there are some; what does not fit is the largest number but one.
  std::optional<uint32_t> number() {
    if (!sees_one_of("0123456789")) return std::nullopt;
    uint64_t value = 0;
    for (; sees_one_of("0123456789"); ++at_) {
      value = std::min<uint64_t>(10 * value + static_cast<uint64_t>(source_[at_] - '0'), UINT32_MAX - 1);
    }
    return static_cast<uint32_t>(value);
  }

  // What follows a backslash in a grammar: xNN, uNNNN, UNNNNNNNN, or one of `letters`, which stands for that
  // of `values`.
  Result<char32_t> escaped(std::string_view letters, std::string_view values) {
    std::optional<char32_t> value;
    if (take("x")) {
      value = hexadecimal(2);
    } else if (take("u")) {
      value = hexadecimal(4);
    } else if (take("U")) {
      value = hexadecimal(8);
    } else if (sees_one_of(letters)) {
      value = static_cast<char32_t>(values[letters.find(static_cast<char>(character()))]);
    }
    const bool surrogate = value && *value >= 0xD800 && *value <= 0xDFFF;
    if (!value || *value > last_character || surrogate) return wrong("this is no escape of a character");
    return *value;
  }

  Error error(Code code, std::string_view problem) const {
    return Error{code, fmt::format("{}, at byte {}: {}", what_, at_, problem)};
  }
  Error wrong(std::string_view problem) const { return error(Code::invalid_argument, problem); }

private:
  std::string_view source_;
  std::string what_;
  size_t at_ = 0;
};

} // namespace pumice::form
