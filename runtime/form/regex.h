#pragma once

#include <functional>

#include "form/grammar.h"

namespace pumice::form {

// How a character of the text is written: itself, or as a string in JSON has it.
using Spelling = std::function<Part(Grammar&, const Characters&)>;

// Whether all of the text matches, or some part of it, as `pattern` in a JSON schema means it.
enum class Match { whole, anywhere };

// Adds a regular expression of ECMAScript's dialect, without look-around, backreferences, word boundaries and
// flags; ^ and $ only at the ends of the whole or of its alternatives. `what` begins errors.
Result<Part> add_regex(Grammar& grammar, std::string_view regex, std::string what, Match match,
                       const Spelling& spelling);

} // namespace pumice::form
