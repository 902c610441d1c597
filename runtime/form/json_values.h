#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "form/grammar.h"
#include "form/regex.h"

namespace pumice::form {

// White space is only where these have it: one space, or none, after a colon or a comma.
Part json_comma(Grammar& grammar);
Part json_colon(Grammar& grammar);

// Characters within a string of JSON, written in one way: themselves where they may be.
Part json_spelling(Grammar& grammar, const Characters& characters);
// A character within a string of JSON, in all ways to write it.
Part json_character(Grammar& grammar);

// A value as it is written, its properties in their order.
Part json_literal(Grammar& grammar, const nlohmann::ordered_json& value);
// An array of nothing, or an object of nothing, or the parts with commas between them.
Part json_in_brackets(Grammar& grammar, char open, Part content, char close);

// The regular expression of a format of strings ("date"); nothing if it is not supported.
std::optional<std::string_view> json_format(std::string_view name);

// A limit of numbers.
struct NumberLimit {
  nlohmann::ordered_json value; // a number
  bool exclusive = false;
};
// Numbers within limits. A decimal number has no exponent where there are limits. Errors: a limit that is too
// large or has an exponent.
Result<Part> json_integers(Grammar& grammar, const std::optional<NumberLimit>& low,
                           const std::optional<NumberLimit>& high);
Result<Part> json_numbers(Grammar& grammar, const std::optional<NumberLimit>& low,
                          const std::optional<NumberLimit>& high);

} // namespace pumice::form
