#pragma once

#include <string_view>

#include "text/jinja/syntax.h"

namespace pumice::text::jinja {

Statements parse_template(std::string_view source);

} // namespace pumice::text::jinja
