#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

// Of markup, what is put into it is escaped.
std::string format_percent(const Value& format, const Value& values);       // format % values
std::string format_braces(const Value& format, const Arguments& arguments); // format.format(...)
std::string round_to(double value, int digits);                             // as f"{value:.{digits}f}"

} // namespace pumice::text::jinja
