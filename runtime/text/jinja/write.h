#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

std::string str(const Value& value);  // as Python's str()
std::string repr(const Value& value); // as Python's repr()
std::string repr_text(std::string_view text);

} // namespace pumice::text::jinja
