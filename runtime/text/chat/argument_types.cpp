#include "text/chat/argument_types.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "text/chat/loose_values.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

using nlohmann::ordered_json;

std::string_view type_of(const ordered_json& value) {
  return value.is_number_integer() ? "integer" : value.type_name();
}

// What a schema allows: names of types, and the values of an enumeration.
struct Allowed {
  std::set<std::string, std::less<>> types;
  ordered_json values = ordered_json::array();

  bool takes(const ordered_json& value) const {
    const std::string_view type = type_of(value);
    return types.contains(type) || (type == "integer" && types.contains("number"));
  }
};

// Parts of a type, divided where no bracket is open.
std::vector<std::string_view> parts_of(std::string_view type, char divider) {
  std::vector<std::string_view> parts;
  size_t begin = 0, open = 0;
  for (size_t at = 0; at < type.size(); ++at) {
    const char c = type[at];
    if (c == '[') ++open;
    if (c == ']' && open > 0) --open;
    if (c != divider || open > 0) continue;
    parts.push_back(trimmed(type.substr(begin, at - begin)));
    begin = at + 1;
  }
  parts.push_back(trimmed(type.substr(begin)));
  return parts;
}

// A type as JSON schemas name it: others write int, List[str], Optional[float], Union[int, str] or str |
// None.
void add_type(Allowed& allowed, std::string_view type, int depth = 0) {
  constexpr int most_levels = 8; // of types within each other
  if (depth == most_levels) return;
  for (const std::string_view one : parts_of(type, '|')) {
    const size_t bracket = one.find_first_of("[(<");
    std::string name = lower_case(one.substr(0, bracket));
    const bool whole = one.ends_with(']') && one[bracket] == '[';
    if (whole && (name == "optional" || name == "union")) {
      if (name == "optional") allowed.types.insert("null");
      const std::string_view inner = one.substr(bracket + 1, one.size() - bracket - 2);
      for (const std::string_view each : parts_of(inner, ',')) add_type(allowed, each, depth + 1);
      continue;
    }
    constexpr std::pair<std::string_view, std::string_view> others[] = {
        {"str", "string"},    {"text", "string"},  {"char", "string"},  {"varchar", "string"},
        {"int", "integer"},   {"long", "integer"}, {"uint", "integer"}, {"float", "number"},
        {"double", "number"}, {"bool", "boolean"}, {"list", "array"},   {"tuple", "array"},
        {"set", "array"},     {"dict", "object"},  {"map", "object"},   {"none", "null"}};
    const auto* other = std::ranges::find_if(others, [&](const auto& each) { return each.first == name; });
    allowed.types.insert(other == std::end(others) ? name : std::string(other->second));
  }
}

void add_allowed(Allowed& allowed, const ordered_json* schema, const ordered_json* root, int depth) {
  constexpr int most_levels = 8; // of schemas within each other, which may refer to themselves
  if (!schema || depth == most_levels) return;
  if (const ordered_json* type = member(schema, "type")) {
    for (const ordered_json& each : type->is_array() ? *type : ordered_json::array({*type}))
      if (each.is_string()) add_type(allowed, each.get_ref<const std::string&>());
  }
  const auto add_value = [&](const ordered_json& value) {
    allowed.types.insert(std::string(type_of(value)));
    allowed.values.push_back(value);
  };
  if (const ordered_json* value = member(schema, "const")) add_value(*value);
  if (const ordered_json* values = member(schema, "enum")) {
    for (const ordered_json& each : *values) add_value(each);
  }
  const ordered_json* nullable = member(schema, "nullable");
  if (nullable && *nullable == true) allowed.types.insert("null");
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    if (const ordered_json* all = member(schema, name)) {
      for (const ordered_json& each : *all) add_allowed(allowed, &each, root, depth + 1);
    }
  }
  const ordered_json* reference = member(schema, "$ref"); // "#/$defs/Name"
  if (!reference || !reference->is_string()) return;
  std::string_view path = reference->get_ref<const std::string&>();
  const ordered_json* at = root;
  while (!path.empty()) {
    const std::string_view step = path.substr(0, path.find('/'));
    if (step != "#") at = member(at, step);
    path.remove_prefix(std::min(step.size() + 1, path.size()));
  }
  add_allowed(allowed, at, root, depth + 1);
}

} // namespace

const ordered_json* member(const ordered_json* object, std::string_view name) {
  if (!object || !object->is_object()) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}

const ordered_json* find_tool(const ordered_json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const ordered_json& each : tools) {
    const ordered_json* inner = member(&each, "function");
    const ordered_json* tool = inner ? inner : &each;
    const ordered_json* found = member(tool, "name");
    if (found && found->is_string() && found->get_ref<const std::string&>() == name) return tool;
  }
  return nullptr;
}

std::vector<std::string> names_of_tools(const ordered_json& tools) {
  std::vector<std::string> names;
  if (!tools.is_array()) return names;
  for (const ordered_json& each : tools) {
    const ordered_json* inner = member(&each, "function");
    const ordered_json* name = member(inner ? inner : &each, "name");
    if (!name || !name->is_string() || name->get_ref<const std::string&>().empty()) continue;
    if (std::ranges::find(names, name->get<std::string>()) == names.end())
      names.push_back(name->get<std::string>());
  }
  return names;
}

const ordered_json& properties_of(const ordered_json& tools, std::string_view name) {
  static const ordered_json none = ordered_json::object();
  const ordered_json* found = member(member(find_tool(tools, name), "parameters"), "properties");
  return found && found->is_object() ? *found : none;
}

ordered_json typed_argument(std::string_view text, const ordered_json& tools, std::string_view tool,
                            std::string_view argument) {
  Allowed allowed;
  add_allowed(allowed, member(&properties_of(tools, tool), argument),
              member(find_tool(tools, tool), "parameters"), 0);
  const std::string_view inner = trimmed(text);
  for (const ordered_json& value : allowed.values) {
    if (value.is_string() && value.get_ref<const std::string&>() == inner) return value;
  }
  LooseReader reader(inner);
  const LooseReader::Value value = reader.value();
  const bool read = value && reader.ended() && !value->is_string();
  if (read && (allowed.types.empty() || allowed.takes(*value))) return *value;
  constexpr double most_exact = 1LL << 53; // up to which each whole number is one
  if (read && value->is_number_float() && allowed.types.contains("integer")) {
    const double number = value->get<double>();
    if (number == std::trunc(number) && std::abs(number) < most_exact) return static_cast<int64_t>(number);
  }
  if (!read || allowed.types.contains("string")) return std::string(text);
  return *value; // of another type than was asked for, as the model wrote it
}

} // namespace pumice::text
