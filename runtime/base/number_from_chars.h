#pragma once

#include <charconv>
#include <type_traits>
#include <version>

namespace pumice {

// What std::from_chars() does, by the C library: for C++ libraries that have it for integers alone, as libc++
// up to version 19, which Android's and Apple's compilers bring.
std::from_chars_result read_decimal(const char* begin, const char* end, float& number);
std::from_chars_result read_decimal(const char* begin, const char* end, double& number);

// Reads an integer, or a decimal number, "inf" or "nan", whatever the locale, as std::from_chars() does.
template <class T>
std::from_chars_result number_from_chars(const char* begin, const char* end, T& number) {
#ifndef __cpp_lib_to_chars
  if constexpr (std::is_floating_point_v<T>)
    return read_decimal(begin, end, number);
  else
#endif
    return std::from_chars(begin, end, number);
}

} // namespace pumice
