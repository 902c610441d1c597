#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

class Interpreter;

// + - * / // % **
Value binary(Interpreter& interpreter, std::string_view operation, const Value& left, const Value& right);
Value unary(std::string_view operation, const Value& value);
// == != < <= > >= in, not in
bool compare(std::string_view operation, const Value& left, const Value& right);
bool contains(const Value& container, const Value& value);

// value.name: an attribute, or else an element. value[key]: an element, or else an attribute.
Value attribute(const Value& value, std::string_view name);
Value element(const Value& value, const Value& key);
// value[start:stop:step]; none for what is left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);

// Markup as it is, and all else as the markup that shows its text.
Value escaped(const Value& value);

// A method of a string, list, dict or tuple; nothing if Python has none of this name.
std::optional<Value> method(const Value& self, std::string_view name);

} // namespace pumice::text::jinja
