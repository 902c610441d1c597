#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice::form {

using Json = nlohmann::ordered_json;

// Keywords that say nothing of what is valid.
bool is_annotation(const std::string& keyword);

// The schema at a reference within the document ("#/$defs/node"). `place` is where the reference is.
Result<const Json*> resolve(const Json& document, const Json& reference, const std::string& place);

// A schema for what is valid in both, where one schema can say it. References are resolved first.
Result<Json> merge(const Json& document, const Json& a, const Json& b, const std::string& place,
                   int depth = 0);

// Whether nothing can be valid in both. False: that is not certain.
bool disjoint(const Json& document, const Json& a, const Json& b, int depth = 0);

// The types that a schema allows, by what it says itself; "number" stands for integers too.
std::vector<std::string> types_of(const Json& schema);

// What of a text from a schema an error shows.
std::string shortened(const std::string& text);

Error unsupported(const std::string& place, const std::string& what);

} // namespace pumice::form
