#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace pumice::text {

// A member of an object; null if there is none, or no object.
const nlohmann::ordered_json* member(const nlohmann::ordered_json* object, std::string_view name);

// A tool of this name in the list that a template was given, or null; its entry may be wrapped:
// {"type": "function", "function": {...}}.
const nlohmann::ordered_json* find_tool(const nlohmann::ordered_json& tools, std::string_view name);
// The names of tools, of those that have one.
std::vector<std::string> names_of_tools(const nlohmann::ordered_json& tools);
// The properties of a tool's arguments by name; an empty object for a tool that is not there.
const nlohmann::ordered_json& properties_of(const nlohmann::ordered_json& tools, std::string_view name);

// What a text without quotes means as an argument of a tool: of the types that the schema allows, the one
// that the text spells in JSON or in Python; else the text itself.
nlohmann::ordered_json typed_argument(std::string_view text, const nlohmann::ordered_json& tools,
                                      std::string_view tool, std::string_view argument);

} // namespace pumice::text
