#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "form/grammar.h"

namespace pumice::form {

// How values are written.
enum class ValueStyle {
  json,
  call,   // JSON as models write it in calls: with line ends and unknown escapes within strings
  python, // that, or Python's strings, True, False and None
  raw     // strings without quotes, up to a mark; all else as JSON or Python has it
};

// The members that an object may have.
struct JsonMembers {
  struct Named {
    std::string name;
    bool required = false;
    Part value = 0;
  };
  std::vector<Named> named;        // in the schema's order
  std::optional<Part> others = {}; // of members whose names are not given; nothing: there are none
};

// Adds what is valid for a schema to a grammar. `marks`: special tokens that strings may have beside
// characters.
Result<Part> add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema, ValueStyle style,
                             Characters marks = {});
// The same for the members of the object that a schema describes, for values that a call writes one by one.
// `raw_end`: what no string may contain that is written raw.
Result<JsonMembers> add_json_members(Grammar& grammar, const nlohmann::ordered_json& schema, ValueStyle style,
                                     std::optional<Part> raw_end = {}, Characters marks = {});

} // namespace pumice::form
