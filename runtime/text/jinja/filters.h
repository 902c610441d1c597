#pragma once

#include <map>
#include <string_view>

#include "text/jinja/function.h"
#include "text/jinja/value.h"

namespace pumice::text::jinja {

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);
using Filters = std::map<std::string_view, Filter>;

const Filters& scalar_filters();           // of text and numbers
const Filters& sequence_filters();         // of lists and dicts
Filter find_filter(std::string_view name); // null if there is none

} // namespace pumice::text::jinja
