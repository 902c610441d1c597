#pragma once

#include <string_view>
#include <vector>

namespace pumice {

// The lines of a text, without the '\n' at their ends. After the last '\n' there is a line only if there is
// text. A '\r' before a '\n' stays.
std::vector<std::string_view> split_lines(std::string_view text);

} // namespace pumice
