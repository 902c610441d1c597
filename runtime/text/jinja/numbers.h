#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

// Numbers as Python reads and writes them.
namespace pumice::text::jinja {

// As int(text, base): white space around it, a sign and single underscores are allowed. Base 0 goes by the
// prefix. Nothing if it is no integer, or larger than 127 bits.
std::optional<Integer> read_integer(std::string_view text, int base);
std::optional<double> read_float(std::string_view text);

std::string write_integer(Integer value, int base = 10); // with small letters, and without a prefix
std::string write_float(double value);                   // repr

// Fail where the result is larger than 127 bits.
Integer add(Integer left, Integer right);
Integer subtract(Integer left, Integer right);
Integer multiply(Integer left, Integer right);

} // namespace pumice::text::jinja
