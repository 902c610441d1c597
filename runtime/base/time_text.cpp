#include "base/time_text.h"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/ascii.h"

namespace pumice {

namespace {

constexpr std::string_view fields = "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ";
constexpr std::string_view numbers = "CdegGHIjmMSuUVwWyY"; // of them: those that a flag pads
constexpr std::string_view flags = "-_0^";

std::string field_text(const std::tm& time, char field) {
  const char form[] = {'{', ':', '%', field, '}', 0};
  return fmt::format(fmt::runtime(form), time);
}

// Puts another character, or none, in place of the zeros and blanks that a number begins with.
void pad(std::string& text, char flag) {
  const size_t padding = std::min(text.find_first_not_of("0 "), text.size() - 1);
  if (flag == '-') {
    text.erase(0, padding);
  } else {
    std::fill_n(text.begin(), padding, flag == '_' ? ' ' : '0');
  }
}

} // namespace

std::string time_text(const std::tm& time, std::string_view format) {
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    const std::string_view rest = format.substr(at);
    const bool has_flag = rest.size() > 2 && flags.find(rest[1]) != flags.npos;
    const size_t place = has_flag ? 2 : 1;
    if (rest[0] != '%' || rest.size() <= place) {
      result += rest[0];
      continue;
    }
    char field = rest[place], flag = has_flag ? rest[1] : 0;
    const bool is_lower = field == 'P';
    if (field == 'k' || field == 'l') { // hours with a blank in front
      field = field == 'k' ? 'H' : 'I';
      flag = flag && flag != '^' ? flag : '_';
    } else if (is_lower) {
      field = 'p';
    }
    std::string text;
    if (field == '%') {
      text = "%";
    } else if (fields.find(field) != fields.npos) {
      text = field_text(time, field);
    } else { // what is none stays
      text = rest.substr(0, place + 1);
      flag = 0;
    }
    if (is_lower) {
      text = lower_case(text);
    } else if (flag == '^') {
      for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    } else if (flag && numbers.find(field) != numbers.npos) {
      pad(text, flag);
    }
    result += text;
    at += place;
  }
  return result;
}

} // namespace pumice
