#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

// The names, at most three and best first, that `name` may have been meant for: few edits away for their
// length.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> names);

} // namespace pumice
