#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice::form {

using Json = nlohmann::ordered_json;

// All values are valid.
inline const Json any_value(true);

// Keywords that say nothing of what is valid.
bool is_annotation(const std::string& keyword);

// The schema at a reference within the document ("#/$defs/node"). `place` is where the reference is.
Result<const Json*> resolve(const Json& document, const Json& reference, const std::string& place);

// What schemas of one document have cost so far. It has a limit.
struct SchemaWork {
  size_t merged = 0, compared = 0;
};

// A schema for what is valid in both, where one schema can say it. References are resolved first.
Result<Json> merge(const Json& document, SchemaWork& work, const Json& a, const Json& b,
                   const std::string& place, int depth = 0);

// Refuses schemas of a oneOf two of which may be valid at once, for some value that forms of them have.
Status check_exclusive(const Json& document, SchemaWork& work, const std::vector<Json>& schemas,
                       const std::string& place);

// Refuses a schema within the document that has an $id: references within it would mean something else.
Status check_identifier(const Json& schema, const std::string& place);

// A text that is the same for values that are equal: properties have no order, and 1 is 1.0.
std::string value_key(const Json& value);

// The types that a schema allows, by what it says itself; "number" stands for integers too.
std::vector<std::string> types_of(const Json& schema);

// What of a text from a schema an error shows.
std::string shortened(const std::string& text);

Error unsupported(const std::string& place, const std::string& what);

} // namespace pumice::form
