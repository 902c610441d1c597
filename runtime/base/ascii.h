#pragma once

#include <string>
#include <string_view>

namespace pumice {

// Without the locale: other letters than A to Z stay.
inline char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower_case(c);
  return result;
}

} // namespace pumice
