#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace pumice::text {

struct MarkSpan {
  size_t begin = 0, end = 0;
};

std::vector<MarkSpan> marks_in(std::string_view text);

// The length of what two texts begin or end with alike, without parts of marks.
size_t common_beginning(std::string_view a, std::string_view b);
size_t common_end(std::string_view a, std::string_view b);

} // namespace pumice::text
