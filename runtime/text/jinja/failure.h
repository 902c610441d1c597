#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace pumice::text::jinja {

// Why a template cannot be parsed or rendered. Thrown inside this folder alone: template.cpp makes an Error
// of it.
struct Failure {
  std::string message;
  int line = 0;          // 0 until the innermost node that has one adds it
  std::string construct; // the statement, as the template writes it
};

template <class... T>
[[noreturn]] void fail(fmt::format_string<T...> format, T&&... values) {
  throw Failure{fmt::format(format, std::forward<T>(values)...), 0, {}};
}

} // namespace pumice::text::jinja
