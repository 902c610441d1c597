#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace pumice {

// What Python's strftime() makes of a time on Linux, whatever the system and its locale: Windows' C library
// ends a program that hands it a format it does not know. What few write stays as it is: %s, widths, and the
// flags #, E and O.
std::string time_text(const std::tm& time, std::string_view format);

} // namespace pumice
