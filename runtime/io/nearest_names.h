#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

// The names that are most similar to `name`, for messages about a name that was not found. At most three, the
// most similar first; a name that differs in more than a third of its letters is not given.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> names);

} // namespace pumice
