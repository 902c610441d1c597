#include "form/schema_merge.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice::form {

namespace {

// Deeper ones are taken to be endless.
constexpr int most_merged = 64;

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
  Merger(const Json& document, const std::string& place, int depth)
      : document_(document), place_(place), depth_(depth) {}

  Result<Json> merged(const Json& a, const Json& b) {
    if (depth_ > most_merged)
      return unsupported(place_, "schemas that are merged refer to each other endlessly");
    if (a == true || a == b) return b;
    if (b == true) return a;
    if (a == false || b == false) return Json(false);
    if (!a.is_object() || !b.is_object())
      return unsupported(place_, "a schema that is no object and no boolean");
    if (a.contains("$ref")) return with_reference(a, b);
    if (b.contains("$ref")) {
      PUMICE_TRY(const Json* target, resolve(document_, b["$ref"], place_));
      Json rest = b;
      rest.erase("$ref");
      PUMICE_TRY(const Json first, again(a, *target));
      return again(first, rest);
    }
    Json result = a;
    for (const auto& [key, value] : b.items()) {
      if (is_annotation(key) || key == "properties" || key == "required") continue;
      if (!result.contains(key)) {
        result[key] = value;
      } else if (result[key] != value) {
        PUMICE_TRY(result[key], both(key, Json(result[key]), value));
        if (result[key].is_null() || (key == "type" && result[key].empty())) return Json(false);
      }
    }
    PUMICE_CHECK(objects(a, b, result));
    return result;
  }

private:
  Result<Json> again(const Json& a, const Json& b) { return merge(document_, a, b, place_, depth_ + 1); }

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
    if (key == "enum") {
      Json values = Json::array();
      for (const Json& value : a) {
        if (contains(b, value)) values.push_back(value);
      }
      return values.empty() ? Json() : values;
    }
    if (key == "const") return Json();
    if (key == "items" || key == "additionalProperties") return again(a, b);
    if (key == "allOf") {
      Json all = a;
      all.insert(all.end(), b.begin(), b.end());
      return all;
    }
    if ((key == "anyOf" || key == "oneOf") && a.size() * b.size() <= 64) {
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

  Status objects(const Json& a, const Json& b, Json& result) {
    const Json none = Json::object();
    const Json& first = a.contains("properties") ? a["properties"] : none;
    const Json& second = b.contains("properties") ? b["properties"] : none;
    if (!first.is_object() || !second.is_object())
      return unsupported(place_, "properties that are no object");
    const bool patterns = a.contains("patternProperties") || b.contains("patternProperties");
    // What the one leaves to its patterns is among the further properties of the other.
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (one->contains("patternProperties") && other->contains("additionalProperties"))
        return unsupported(place_, "patternProperties in schemas that are merged");
    }
    Json properties = Json::object();
    for (const Json* each : {&first, &second}) {
      for (const auto& property : each->items()) {
        const std::string& name = property.key();
        if (properties.contains(name)) continue;
        const auto schema = [&](const Json& whole, const Json& from) {
          if (from.contains(name)) return Json(from[name]);
          return whole.contains("additionalProperties") ? Json(whole["additionalProperties"]) : Json(true);
        };
        if (patterns && !(first.contains(name) && second.contains(name)) &&
            (a.contains("additionalProperties") || b.contains("additionalProperties")))
          return unsupported(place_, "patternProperties in schemas that are merged");
        PUMICE_TRY(properties[name], again(schema(a, first), schema(b, second)));
      }
    }
    if (!properties.empty()) result["properties"] = properties;
    if (b.contains("required") && b["required"].is_array()) {
      Json required = a.contains("required") && a["required"].is_array() ? a["required"] : Json::array();
      for (const Json& name : b["required"]) {
        if (!contains(required, name)) required.push_back(name);
      }
      result["required"] = required;
    }
    return {};
  }

  const Json& document_;
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

Result<Json> merge(const Json& document, const Json& a, const Json& b, const std::string& place, int depth) {
  return Merger(document, place, depth).merged(a, b);
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

bool disjoint(const Json& document, const Json& first, const Json& second, int depth) {
  const Json &a = *followed(document, &first), &b = *followed(document, &second);
  if (a == false || b == false) return true;
  if (!a.is_object() || !b.is_object() || depth > 8) return false;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!one->contains(key) || !(*one)[key].is_array()) continue;
      return std::ranges::all_of((*one)[key], [&, outside = other](const Json& each) {
        return disjoint(document, each, *outside, depth + 1);
      });
    }
    if (one->contains("allOf") && (*one)["allOf"].is_array() &&
        std::ranges::any_of((*one)["allOf"], [&, outside = other](const Json& each) {
          return disjoint(document, each, *outside, depth + 1);
        }))
      return true;
  }
  const auto general = [](const std::string& type) {
    return type == "integer" ? std::string("number") : type;
  };
  bool common_type = false;
  const std::vector<std::string> of_b = types_of(b);
  for (const std::string& type : types_of(a)) {
    for (const std::string& other : of_b) common_type = common_type || general(type) == general(other);
  }
  if (!common_type) return true;
  Json storage_a, storage_b;
  const Json *values_a = values_of(a, storage_a), *values_b = values_of(b, storage_b);
  if (values_a && values_b)
    return std::ranges::none_of(*values_a, [&](const Json& value) { return contains(*values_b, value); });
  const auto required = [](const Json& schema, const std::string& name) {
    return schema.contains("required") && contains(schema["required"], name);
  };
  const std::vector<std::string> only_objects{"object"};
  if (types_of(a) != only_objects || of_b != only_objects) return false;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const bool closed = one->contains("additionalProperties") && (*one)["additionalProperties"] == false &&
                        !one->contains("patternProperties");
    const Json none = Json::object();
    const Json& own = one->contains("properties") ? (*one)["properties"] : none;
    if (!other->contains("required") || !(*other)["required"].is_array()) continue;
    for (const Json& name : (*other)["required"]) {
      if (!name.is_string()) continue;
      const auto key = name.get<std::string>();
      if (closed && !own.contains(key)) return true;
      if (own.contains(key) && required(*one, key) && other->contains("properties") &&
          (*other)["properties"].contains(key) &&
          disjoint(document, own[key], (*other)["properties"][key], depth + 1))
        return true;
    }
  }
  return false;
}

} // namespace pumice::form
