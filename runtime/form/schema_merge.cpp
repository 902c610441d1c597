#include "form/schema_merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice::form {

namespace {

// Deeper ones are taken to be endless.
constexpr int most_merged = 64;
// Most values within schemas that are merged, where what is merged again counts again, and most pairs of
// schemas that are compared: less than half a second.
constexpr size_t most_merge_work = 500'000;
constexpr size_t most_comparisons = 200'000;
// Schemas within others that are compared; deeper ones are not told apart.
constexpr int most_compared = 8;

int hexadecimal(char c) {
  const size_t digit = std::string_view("0123456789ABCDEF0123456789abcdef").find(c);
  return digit == std::string_view::npos ? -1 : static_cast<int>(digit % 16);
}

std::string without_percents(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hexadecimal(text[i + 1]) >= 0 &&
        hexadecimal(text[i + 2]) >= 0) {
      result += static_cast<char>(16 * hexadecimal(text[i + 1]) + hexadecimal(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool contains(const Json& list, const Json& value) {
  return list.is_array() && std::ranges::find(list, value) != list.end();
}

std::string type_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  return value.is_object() ? "object" : "number";
}

void append_key(const Json& value, std::string& key) {
  if (value.is_object()) {
    std::map<std::string_view, const Json*> members;
    for (const auto& [name, each] : value.items()) members[name] = &each;
    key += '{';
    for (const auto& [name, each] : members) {
      key += Json(name).dump() + ':';
      append_key(*each, key);
      key += ',';
    }
    key += '}';
  } else if (value.is_array()) {
    key += '[';
    for (const Json& each : value) {
      append_key(each, key);
      key += ',';
    }
    key += ']';
  } else {
    constexpr double exact = 9e18; // a whole number below it fits 64 bits
    const double number = value.is_number_float() ? value.get<double>() : exact;
    const bool is_whole = std::abs(number) < exact && number == std::floor(number);
    key += is_whole ? std::to_string(static_cast<int64_t>(number)) : value.dump();
  }
}

std::set<std::string> keys_of(const Json& values) {
  std::set<std::string> keys;
  for (const Json& value : values) keys.insert(value_key(value));
  return keys;
}

size_t size_of(const Json& value) {
  size_t size = 1;
  if (value.is_structured()) {
    for (const Json& each : value) size += size_of(each);
  }
  return size;
}

// The values of an enum or a const; null: neither.
const Json* values_of(const Json& schema, Json& storage) {
  if (schema.contains("const")) {
    storage = Json::array({schema["const"]});
    return &storage;
  }
  return schema.contains("enum") && schema["enum"].is_array() ? &schema["enum"] : nullptr;
}

Json merged_types(const Json& a, const Json& b) {
  const auto list = [](const Json& types) { return types.is_array() ? types : Json::array({types}); };
  Json both = Json::array();
  for (const Json& type : list(a)) {
    if (contains(list(b), type)) both.push_back(type);
    if (type == "integer" && contains(list(b), "number")) both.push_back("integer");
    if (type == "number" && contains(list(b), "integer") && !contains(list(a), "integer"))
      both.push_back("integer");
  }
  return both;
}

class Merger {
public:
  Merger(const Json& document, SchemaWork& work, const std::string& place, int depth)
      : document_(document), work_(work), place_(place), depth_(depth) {}

  Result<Json> merged(const Json& a, const Json& b) {
    if (depth_ > most_merged)
      return unsupported(place_, "schemas that are merged refer to each other endlessly");
    work_.merged += size_of(a) + size_of(b);
    if (work_.merged > most_merge_work) return unsupported(place_, "the schemas to merge are too large");
    if (a == true || a == b) return b;
    if (b == true) return a;
    if (a == false || b == false) return Json(false);
    if (!a.is_object() || !b.is_object())
      return unsupported(place_, "a schema that is no object and no boolean");
    for (const Json* each : {&a, &b}) {
      if (each != &document_) PUMICE_CHECK(check_identifier(*each, place_));
    }
    if (a.contains("$ref")) return with_reference(a, b);
    if (b.contains("$ref")) {
      PUMICE_TRY(const Json* target, resolve(document_, b["$ref"], place_));
      Json rest = b;
      rest.erase("$ref");
      PUMICE_TRY(const Json first, again(a, *target));
      return again(first, rest);
    }
    Json result = a;
    result.erase("$id");
    for (const auto& [key, value] : b.items()) {
      if (is_annotation(key) || key == "properties" || key == "required" || key == "prefixItems") continue;
      if (!result.contains(key)) {
        result[key] = value;
      } else if (result[key] != value) {
        PUMICE_TRY(result[key], both(key, Json(result[key]), value));
        if (result[key].is_null() || (key == "type" && result[key].empty())) return Json(false);
      }
    }
    PUMICE_CHECK(objects(a, b, result));
    PUMICE_CHECK(arrays(a, b, result));
    return result;
  }

private:
  using Names = std::map<std::string_view, const Json*>;

  Result<Json> again(const Json& a, const Json& b) {
    return merge(document_, work_, a, b, place_, depth_ + 1);
  }

  Result<Json> with_reference(const Json& a, const Json& b) {
    PUMICE_TRY(const Json* target, resolve(document_, a["$ref"], place_));
    Json rest = a;
    rest.erase("$ref");
    PUMICE_TRY(const Json first, again(*target, rest));
    return again(first, b);
  }

  // What one keyword says in both; null: nothing is valid.
  Result<Json> both(const std::string& key, const Json& a, const Json& b) {
    if (key == "type") return merged_types(a, b);
    if (a.is_number() && b.is_number()) {
      if (key.starts_with("min") || key == "exclusiveMinimum") return a < b ? b : a;
      if (key.starts_with("max") || key == "exclusiveMaximum") return a < b ? a : b;
    }
    if (key == "const") return value_key(a) == value_key(b) ? a : Json();
    if (key == "items" || key == "additionalProperties") return again(a, b);
    const bool lists = a.is_array() && b.is_array();
    if (key == "enum" && lists) {
      const std::set<std::string> keys = keys_of(b);
      Json values = Json::array();
      for (const Json& value : a) {
        if (keys.contains(value_key(value))) values.push_back(value);
      }
      return values.empty() ? Json() : values;
    }
    if (key == "allOf" && lists) {
      Json all = a;
      all.insert(all.end(), b.begin(), b.end());
      return all;
    }
    if ((key == "anyOf" || key == "oneOf") && lists && a.size() * b.size() <= 64) {
      Json all = Json::array();
      for (const Json& first : a) {
        for (const Json& second : b) {
          PUMICE_TRY(Json each, again(first, second));
          if (each != false) all.push_back(std::move(each));
        }
      }
      return all.empty() ? Json() : all;
    }
    return unsupported(place_, fmt::format("two schemas that are both valid and have different {}", key));
  }

  Result<Names> names_of(const Json& schema) {
    Names names;
    if (!schema.contains("properties")) return names;
    if (!schema["properties"].is_object()) return unsupported(place_, "properties that are no object");
    for (const auto& [name, each] : schema["properties"].items()) names[name] = &each;
    return names;
  }

  Status objects(const Json& a, const Json& b, Json& result) {
    PUMICE_TRY(const Names first, names_of(a));
    PUMICE_TRY(const Names second, names_of(b));
    const bool patterns = a.contains("patternProperties") || b.contains("patternProperties");
    const bool others = a.contains("additionalProperties") || b.contains("additionalProperties");
    // What the one leaves to its patterns is among the further properties of the other.
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (one->contains("patternProperties") && other->contains("additionalProperties"))
        return unsupported(place_, "patternProperties in schemas that are merged");
    }
    const auto property = [](const Json& whole, const Names& own, std::string_view name) -> const Json& {
      if (const auto known = own.find(name); known != own.end()) return *known->second;
      return whole.contains("additionalProperties") ? whole["additionalProperties"] : any_value;
    };
    Json::object_t properties;
    for (const Json* each : {&a, &b}) {
      if (!each->contains("properties")) continue;
      for (const auto& [name, schema] : (*each)["properties"].items()) {
        const bool known = first.contains(name);
        if (each == &b && known) continue;
        if (patterns && others && !(known && second.contains(name)))
          return unsupported(place_, "patternProperties in schemas that are merged");
        PUMICE_TRY(Json merged, again(property(a, first, name), property(b, second, name)));
        properties.emplace_back(name, std::move(merged));
      }
    }
    if (!properties.empty()) result["properties"] = std::move(properties);
    return required(a, b, result);
  }

  Status required(const Json& a, const Json& b, Json& result) {
    Json all = Json::array();
    std::set<std::string> known;
    for (const Json* each : {&a, &b}) {
      if (!each->contains("required")) continue;
      if (!(*each)["required"].is_array()) return unsupported(place_, "required is no list of names");
      for (const Json& name : (*each)["required"]) {
        if (known.insert(name.dump()).second) all.push_back(name);
      }
    }
    if (!all.empty()) result["required"] = std::move(all);
    return {};
  }

  // What comes after a schema's own prefixItems is as its items are.
  Status arrays(const Json& a, const Json& b, Json& result) {
    const Json none = Json::array();
    const Json& first = a.contains("prefixItems") ? a["prefixItems"] : none;
    const Json& second = b.contains("prefixItems") ? b["prefixItems"] : none;
    if (!first.is_array() || !second.is_array()) return unsupported(place_, "prefixItems that are no list");
    const auto item = [](const Json& whole, const Json& own, size_t i) -> const Json& {
      if (i < own.size()) return own[i];
      return whole.contains("items") ? whole["items"] : any_value;
    };
    Json all = Json::array();
    for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
      PUMICE_TRY(Json each, again(item(a, first, i), item(b, second, i)));
      all.push_back(std::move(each));
    }
    if (!all.empty()) result["prefixItems"] = std::move(all);
    return {};
  }

  const Json& document_;
  SchemaWork& work_;
  const std::string& place_;
  int depth_;
};

const Json* followed(const Json& document, const Json* schema) {
  for (int i = 0; i < most_merged && schema->is_object() && schema->contains("$ref"); ++i) {
    const Result<const Json*> target = resolve(document, (*schema)["$ref"], "");
    if (!target.ok()) return schema;
    schema = *target;
  }
  return schema;
}

enum Types : uint32_t { no_type = 0, object_type = 32, all_types = 63 };

uint32_t bits_of(const std::vector<std::string>& types) {
  constexpr std::array<std::string_view, 6> names{"null", "boolean", "number", "string", "array", "object"};
  uint32_t bits = no_type;
  for (const std::string& type : types) {
    const auto name = std::ranges::find(names, type == "integer" ? "number" : std::string_view(type));
    bits |= name == names.end() ? uint32_t{all_types} : 1U << (name - names.begin());
  }
  return bits;
}

bool names_types(const Json& schema) {
  return schema.contains("type") || schema.contains("enum") || schema.contains("const");
}

// The types that may be valid, by what a schema says itself.
uint32_t valid_types(const Json& schema) {
  return names_types(schema) ? bits_of(types_of(schema)) : uint32_t{all_types};
}

// The types that a form of a schema may have: a schema without a type has those that its keywords speak of.
uint32_t written_types(const Json& document, SchemaWork& work, const Json& schema, int depth) {
  if (!schema.is_object() || depth > most_compared || ++work.compared > most_comparisons) return all_types;
  if (names_types(schema)) return valid_types(schema);
  uint32_t types = no_type;
  if (schema.contains("$ref")) {
    const Result<const Json*> target = resolve(document, schema["$ref"], "");
    types |= target.ok() ? written_types(document, work, **target, depth + 1) : uint32_t{all_types};
  }
  for (const char* key : {"allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    for (const Json& each : schema[key]) types |= written_types(document, work, each, depth + 1);
  }
  const uint32_t own = bits_of(types_of(schema));
  return own == all_types && types != no_type ? types : types | own;
}

// Whether schemas exclude each other.
class Comparison {
public:
  // `types`: of the values that matter.
  Comparison(const Json& document, SchemaWork& work, uint32_t types)
      : document_(document), work_(work), types_(types) {}

  bool too_large() const { return work_.compared > most_comparisons; }

  // By values, or by those of a property that all must have, without a look at each pair.
  bool all_disjoint(const std::vector<Json>& schemas) {
    std::vector<const Json*> all;
    for (const Json& each : schemas) {
      all.push_back(followed(document_, &each));
      if (!all.back()->is_object()) return false;
    }
    if (differ(all)) return true;
    const Json& first = *all[0];
    if (!first.contains("required") || !first["required"].is_array()) return false;
    for (const Json* each : all) {
      if ((valid_types(*each) & types_ & ~uint32_t{object_type}) != 0) return false;
    }
    return std::ranges::any_of(first["required"], [&](const Json& name) {
      std::vector<const Json*> properties;
      for (const Json* each : all) {
        work_.compared += 1 + names_in(*each) / looked_at_once;
        const bool has = name.is_string() && !too_large() && each->contains("required") &&
                         contains((*each)["required"], name) && each->contains("properties") &&
                         (*each)["properties"].contains(name.get<std::string>());
        if (!has) return false;
        properties.push_back(followed(document_, &(*each)["properties"][name.get<std::string>()]));
      }
      return differ(properties);
    });
  }

  // Whether nothing of these types can be valid in both. False: that is not certain.
  bool disjoint(const Json& first, const Json& second, uint32_t types, int depth) {
    ++work_.compared;
    const Json &a = *followed(document_, &first), &b = *followed(document_, &second);
    if (a == false || b == false) return true;
    if (!a.is_object() || !b.is_object() || depth > most_compared || too_large()) return false;
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      const auto excludes = [&, outside = other](const Json& each) {
        return disjoint(each, *outside, types, depth + 1);
      };
      for (const char* key : {"anyOf", "oneOf"}) {
        if (one->contains(key) && (*one)[key].is_array() && std::ranges::all_of((*one)[key], excludes))
          return true;
      }
      if (one->contains("allOf") && (*one)["allOf"].is_array() &&
          std::ranges::any_of((*one)["allOf"], excludes))
        return true;
    }
    const uint32_t common = valid_types(a) & valid_types(b) & types;
    if (common == no_type || differ({&a, &b})) return true;
    return common == object_type && (excludes_objects(a, b, depth) || excludes_objects(b, a, depth));
  }

private:
  static constexpr size_t looked_at_once = 16; // values or names that cost as much as a comparison

  static size_t names_in(const Json& schema) {
    size_t count = 0;
    for (const char* key : {"required", "properties"}) count += schema.contains(key) ? schema[key].size() : 0;
    return count;
  }

  // Whether all have values, and none of them the same as another one.
  bool differ(const std::vector<const Json*>& schemas) {
    std::set<std::string> known;
    for (const Json* each : schemas) {
      Json storage;
      const Json* values = each->is_object() ? values_of(*each, storage) : nullptr;
      if (!values) return false;
      work_.compared += values->size() / looked_at_once;
      for (const std::string& key : keys_of(*values)) {
        if (!known.insert(key).second) return false;
      }
    }
    return true;
  }

  // Whether an object lacks a property that the other one must have, or has another one there.
  bool excludes_objects(const Json& a, const Json& b, int depth) {
    const bool closed = a.contains("additionalProperties") && a["additionalProperties"] == false &&
                        !a.contains("patternProperties");
    const Json none = Json::object();
    const Json& own = a.contains("properties") ? a["properties"] : none;
    const Json& others = b.contains("properties") ? b["properties"] : none;
    if (!b.contains("required") || !b["required"].is_array()) return false;
    work_.compared += b["required"].size() * (own.size() + others.size()) / looked_at_once;
    return std::ranges::any_of(b["required"], [&](const Json& name) {
      if (!name.is_string()) return false;
      const auto key = name.get<std::string>();
      if (closed && !own.contains(key)) return true;
      return own.contains(key) && others.contains(key) &&
             disjoint(own[key], others[key], all_types, depth + 1);
    });
  }

  const Json& document_;
  SchemaWork& work_;
  uint32_t types_;
};

} // namespace

std::string shortened(const std::string& text) {
  return text.size() <= 120 ? text : printable(text);
}

Error unsupported(const std::string& place, const std::string& what) {
  return Error{Code::unsupported, fmt::format("the JSON schema, at \"{}\": {}", shortened(place), what)};
}

bool is_annotation(const std::string& keyword) {
  constexpr std::array<std::string_view, 15> known{
      "title",    "description", "default",  "examples",  "example", "$schema",     "$id",        "id",
      "$comment", "deprecated",  "readOnly", "writeOnly", "$defs",   "definitions", "$vocabulary"};
  return std::ranges::find(known, keyword) != known.end() || keyword.starts_with("x-");
}

Result<const Json*> resolve(const Json& document, const Json& reference, const std::string& place) {
  if (!reference.is_string()) return unsupported(place, "a $ref that is no text");
  const std::string text = without_percents(reference.get<std::string>());
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/')) {
    return unsupported(place,
                       fmt::format("the $ref \"{}\": only places within the schema can be named, as in "
                                   "#/$defs/NAME; nothing is fetched",
                                   shortened(text)));
  }
  const Json* at = &document;
  for (size_t begin = 2; begin <= text.size() && text.size() > 1;) {
    const size_t end = std::min(text.find('/', begin), text.size());
    std::string name;
    for (size_t i = begin; i < end; ++i) {
      const bool escape = text[i] == '~' && i + 1 < end && (text[i + 1] == '0' || text[i + 1] == '1');
      name += !escape ? text[i] : text[++i] == '0' ? '~' : '/';
    }
    const bool is_index = at->is_array() && !name.empty() && name.size() < 7 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else if (is_index && std::stoul(name) < at->size()) {
      at = &(*at)[std::stoul(name)];
    } else {
      return unsupported(place, fmt::format("the $ref \"{}\" names nothing", shortened(text)));
    }
    begin = end + 1;
  }
  return at;
}

Result<Json> merge(const Json& document, SchemaWork& work, const Json& a, const Json& b,
                   const std::string& place, int depth) {
  return Merger(document, work, place, depth).merged(a, b);
}

Status check_identifier(const Json& schema, const std::string& place) {
  if (!schema.contains("$id")) return {};
  return unsupported(place + "/$id", "an $id within a schema is not supported: it says what its $ref mean");
}

std::string value_key(const Json& value) {
  std::string key;
  append_key(value, key);
  return key;
}

std::vector<std::string> types_of(const Json& schema) {
  if (schema.contains("type")) {
    std::vector<std::string> types;
    for (const Json& type : schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]})) {
      if (type.is_string()) types.push_back(type.get<std::string>());
    }
    return types;
  }
  Json storage;
  if (const Json* values = values_of(schema, storage)) {
    std::vector<std::string> types;
    for (const Json& value : *values) types.push_back(type_of(value));
    return types;
  }
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return schema.contains(key); });
  };
  std::vector<std::string> types;
  if (has({"properties", "required", "additionalProperties", "patternProperties", "minProperties",
           "maxProperties"}))
    types.emplace_back("object");
  if (has({"items", "prefixItems", "minItems", "maxItems"})) types.emplace_back("array");
  if (has({"pattern", "format", "minLength", "maxLength"})) types.emplace_back("string");
  if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) types.emplace_back("number");
  if (types.empty()) types = {"null", "boolean", "number", "string", "array", "object"};
  return types;
}

Status check_exclusive(const Json& document, SchemaWork& work, const std::vector<Json>& schemas,
                       const std::string& place) {
  uint32_t types = no_type;
  for (const Json& each : schemas) types |= written_types(document, work, each, 0);
  Comparison comparison(document, work, types);
  if (comparison.all_disjoint(schemas)) return {};
  for (size_t i = 0; i < schemas.size(); ++i) {
    for (size_t j = i + 1; j < schemas.size(); ++j) {
      const bool disjoint = comparison.disjoint(schemas[i], schemas[j], types, 0);
      if (comparison.too_large()) return unsupported(place, "the schemas of oneOf are too many to compare");
      if (disjoint) continue;
      return unsupported(place, fmt::format("oneOf is only supported where no two of its schemas can both be "
                                            "valid, and {} and {} may be: use anyOf",
                                            i, j));
    }
  }
  return {};
}

} // namespace pumice::form
