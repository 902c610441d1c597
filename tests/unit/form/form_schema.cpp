// JSON schemas: documents that are valid, documents that are not, and documents drawn from masks, which a
// plain checker of the same keywords accepts.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/form.h"

using namespace pumice;
using nlohmann::json;

namespace {

struct Case {
  const char* schema;
  std::vector<std::string> valid, invalid;
};

const std::vector<Case> cases = {
    {R"({"type": "string"})",
     {R"("")", R"("é\n\u00e9\ud83d\ude00\/")"},
     {R"("\ud83d")", "\"\n\"", "1", R"("\x")"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", R"("漢字é")", R"("\n\u00e9")"},
     {R"("a")", R"("abcd")"}},
    {R"({"type": "string", "pattern": "^a.c$|[A-Z ]"})", {R"("aéc")", R"("--X--")"}, {R"("abcd")", R"("")"}},
    {R"({"pattern": "^[a-z\"]+$", "maxLength": 3})", {R"("a\"b")"}, {R"("abcd")", R"("A")"}},
    {R"({"type": "integer"})", {"0", "-17", "123456789012345678"}, {"01", "1.5", "+1", "-"}},
    {R"({"type": "integer", "minimum": -15, "exclusiveMaximum": 230})",
     {"-15", "-9", "-1", "0", "7", "99", "100", "229"},
     {"-16", "-20", "230", "1000", "007"}},
    {R"({"type": "integer", "minimum": 3.5})", {"4", "10", "123456789"}, {"3", "-4", "0"}},
    {R"({"type": "integer", "maximum": -1})", {"-1", "-300"}, {"0", "1"}},
    {R"({"type": "number"})", {"0", "-1.50", "1e9", "2.5E-3"}, {".5", "1.", "NaN"}},
    {R"({"type": "number", "minimum": -0.5, "maximum": 12.25})",
     {"-0.5", "-0.25", "0", "0.001", "9.99", "12", "12.25", "12.2499", "12.250"},
     {"-0.51", "12.251", "13", "-1", "1e1"}},
    {R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
     {"0.5", "0.001", "0.99"},
     {"0", "0.0", "1", "1.0", "-0.1"}},
    {R"({"type": "number", "minimum": 2.125, "exclusiveMaximum": 2.5})",
     {"2.125", "2.13", "2.2", "2.499"},
     {"2", "2.1", "2.5", "2.1249", "2.50"}},
    {R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})", // more digits would be read as 1
     {"0", "0.0", "0.99999999999999"},
     {"0.9999999999999999", "0.999999999999999999", "1"}},
    {R"({"type": "number", "exclusiveMaximum": 999999999999999})", // digits are left out only just below it
     {"0.25", "-12.123456789", "999999999999997.5", "999999999999998"},
     {"999999999999998.5", "999999999999999"}},
    {R"({"type": "number", "exclusiveMinimum": 12.5, "maximum": 1e3})",
     {"12.5000000000001", "13.123456789", "1000", "1000.00"},
     {"12.5", "12.50", "12.50000000000001", "1000.1"}},
    {R"({"type": "number", "minimum": 0.00001, "maximum": 0.1})",
     {"0.00001", "0.1", "0.000010001"},
     {"0", "0.000001", "0.1000000000000001"}},
    {R"({"type": "integer", "maximum": 18446744073709551615})",
     {"18446744073709551615"},
     {"18446744073709551616"}},
    {R"({"const": 18446744073709551615})", {"18446744073709551615"}, {"1.8446744073709552e+19"}},
    {R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"0", "\"\""}},
    {R"({"enum": ["a", 1, null, {"x": [1, 2]}]})",
     {"\"a\"", "1", "null", R"({"x":[1,2]})", R"({"x": [1, 2]})"},
     {"2", "\"b\"", "{}"}},
    {R"({"const": "north"})", {"\"north\""}, {"\"east\"", "north"}},
    {R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"], "additionalProperties": false})",
     {R"({"b":null})", R"({"a": 1, "b": null})", R"({"a":1,"b": null})"},
     {"{}", R"({"b":null,"a":1})", R"({"b":null,"c":1})", R"({ "b":null})", R"({"a":1,})"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})",
     {"{}", R"({"a":1})", R"({"x":true,"y":false})", R"({"a":1,"ab":true})", R"({"":true})"},
     {R"({"a":true})", R"({"x":1})", R"({"x":true,"a":true})", R"({"a":1,"\u0061":true})"}},
    {R"({"type": "object", "required": ["q"]})",
     {R"({"q":[1,{"x":null}]})"},
     {"{}", R"({"q":1,"q":2})", R"({"q":1,"\u0071":2})"}},
    {R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a$", "minLength": 5}, "b": {"type": "null"}}, "additionalProperties": false})",
     {"{}", R"({"b":null})"},
     {R"({"a":"aaaaa"})"}},
    {R"({"patternProperties": {"^n_": {"type": "integer"}, "_s$": {"type": "string"}}, "properties": {"n_a": {"minimum": 3}}, "additionalProperties": false})",
     {"{}", R"({"n_a":3})", R"({"n_b":1,"x_s":"y"})"},
     {R"({"n_a":2})", R"({"n_b":"y"})", R"({"z":1})"}},
    {R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 2})",
     {R"({"a":null})", R"({"a":null,"b":null})"},
     {"{}", R"({"a":null,"b":null,"c":null})"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
     {"[1]", "[1, 2,3]"},
     {"[]", "[1,2,3,4]", "[1,]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": {"type": "boolean"}, "minItems": 2})",
     {"[1,null]", "[1,null,true,false]"},
     {"[1]", "[1,null,2]", "[null,1]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": false})", {"[]", "[1]"}, {"[1,2]"}},
    {R"({"allOf": [{"prefixItems": [{"type": "integer"}]}, {"items": {"type": "number", "minimum": 5}}]})",
     {"[]", "[5]", "[7,5.5]"},
     {"[4]", "[5.5]", "[5,4]"}},
    {R"({"allOf": [{"prefixItems": [{"type": "integer"}]}, {"prefixItems": [true, {"type": "null"}], "items": false}]})",
     {"[]", "[1]", "[1,null]"},
     {"[null]", "[1,1]", "[1,null,1]"}},
    {R"({"allOf": [{"enum": [1, {"a": 1, "b": 2}, 2]}, {"enum": [3, {"b": 2, "a": 1}, 1.0]}]})",
     {"1", R"({"a":1,"b":2})"},
     {"2", "3"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
     {"5", "\"a\""},
     {"\"ab\"", "null"}},
    {R"({"oneOf": [{"type": "number", "minimum": 5}, {"type": "string", "maxLength": 3}]})",
     {"5", R"("abc")"},
     {"4"}},
    {R"({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}, {"properties": {"k": {"const": 2}, "v": {"type": "null"}}, "required": ["k", "v"]}], "type": "object"})",
     {R"({"k":1})", R"({"k":2,"v":null})"},
     {R"({"k":2})", R"({"k":3})"}},
    {R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 5}, "b": {"type": "null"}}, "additionalProperties": false}]})",
     {R"({"a":5})", R"({"a":5,"b":null})"},
     {R"({"a":4})", "{}", R"({"a":5,"c":null})"}},
    {R"({"$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"], "additionalProperties": false}}, "$ref": "#/$defs/node"})",
     {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
     {"{}", R"({"next":1})"}},
    {R"({"type": "string", "format": "date"})",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"2024-13-01\"", "\"1900-02-29\"", "\"24-1-1\""}},
    {R"({"type": "string", "format": "date-time"})",
     {"\"2024-01-31T23:59:59Z\"", "\"2024-01-31T00:00:00.5+02:00\""},
     {"\"2024-01-31\"", "\"2024-01-31T24:00:00Z\""}},
    {R"({"type": "string", "format": "uuid"})",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567\""}},
    {R"({"type": "string", "format": "ipv4"})", {"\"192.168.0.255\""}, {"\"256.1.1.1\"", "\"1.2.3\""}},
    {R"({"type": "string", "format": "email", "maxLength": 9})",
     {"\"ab@c.de\""},
     {"\"abc\"", "\"abcdef@c.de\""}},
    {R"({"type": "string", "format": "hostname"})", {"\"a-b.example\""}, {"\"-a\"", "\"a..b\""}},
    {R"({"type": "string", "format": "uri"})",
     {"\"https://a.b/c?d=e#f\"", "\"urn:x:y\""},
     {"\"a b\"", "\"//x\""}},
    {R"({})", {"1", R"({"a":[{}]})", "[]", "\"x\"", "null"}, {"", "{1:2}"}},
    {R"({"title": "t", "description": "d", "default": 3, "examples": [1], "$comment": "c", "x-own": 1, "type": "null"})",
     {"null"},
     {"3"}},
};

// Of a document that is drawn: the keywords that the cases above have, without $ref beside others.
bool valid(const json& root, const json& schema, const json& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto has_type = [&](const std::string& type) {
    return type == "null"      ? value.is_null()
           : type == "boolean" ? value.is_boolean()
           : type == "string"  ? value.is_string()
           : type == "array"   ? value.is_array()
           : type == "object"  ? value.is_object()
           : type == "number"  ? value.is_number()
                               : value.is_number_integer();
  };
  const auto all_valid = [&](const json& list) {
    return std::ranges::all_of(list, [&](const json& each) { return valid(root, each, value); });
  };
  const auto count_valid = [&](const json& list) {
    return std::ranges::count_if(list, [&](const json& each) { return valid(root, each, value); });
  };
  const auto number = [&](const char* key) { return schema[key].get<double>(); };
  if (schema.contains("$ref"))
    return valid(root,
                 schema["$ref"] == "#"
                     ? root
                     : root.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))),
                 value);
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    if (std::ranges::none_of(types, has_type)) return false;
  }
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
    return false;
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("allOf") && !all_valid(schema["allOf"])) return false;
  if (schema.contains("anyOf") && count_valid(schema["anyOf"]) == 0) return false;
  if (schema.contains("oneOf") && count_valid(schema["oneOf"]) != 1) return false;
  if (value.is_number()) {
    const auto at = value.get<double>();
    if (schema.contains("minimum") && at < number("minimum")) return false;
    if (schema.contains("maximum") && at > number("maximum")) return false;
    if (schema.contains("exclusiveMinimum") && at <= number("exclusiveMinimum")) return false;
    if (schema.contains("exclusiveMaximum") && at >= number("exclusiveMaximum")) return false;
  }
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto length =
        static_cast<double>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
    if (schema.contains("minLength") && length < number("minLength")) return false;
    if (schema.contains("maxLength") && length > number("maxLength")) return false;
  }
  if (value.is_array()) {
    const auto size = static_cast<double>(value.size());
    if (schema.contains("minItems") && size < number("minItems")) return false;
    if (schema.contains("maxItems") && size > number("maxItems")) return false;
    const json prefix = schema.value("prefixItems", json::array());
    for (size_t i = 0; i < value.size(); ++i) {
      const json item = i < prefix.size()          ? prefix[i]
                        : schema.contains("items") ? schema["items"]
                                                   : json(true);
      if (!valid(root, item, value[i])) return false;
    }
  }
  if (!value.is_object()) return true;
  for (const json& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  if (schema.contains("minProperties") && static_cast<double>(value.size()) < number("minProperties"))
    return false;
  for (const auto& [name, each] : value.items()) {
    const json properties = schema.value("properties", json::object());
    bool known = properties.contains(name);
    if (known && !valid(root, properties[name], each)) return false;
    if (schema.contains("patternProperties")) {
      for (const auto& [pattern, inner] : schema["patternProperties"].items()) {
        const bool matches = pattern == "^n_" ? name.starts_with("n_") : name.ends_with("_s");
        if (matches && !valid(root, inner, each)) return false;
        known = known || matches;
      }
    }
    if (!known && schema.contains("additionalProperties") &&
        !valid(root, schema["additionalProperties"], each))
      return false;
  }
  return true;
}

std::string error_of(std::string schema) {
  const auto form = Form::create({.json_schema = std::move(schema)}, byte_vocabulary());
  REQUIRE(!form.ok());
  return form.error().message;
}

} // namespace

TEST_CASE("valid and invalid documents of schemas") {
  const auto vocabulary = byte_vocabulary();
  for (const Case& each : cases) {
    CAPTURE(std::string(each.schema));
    const auto form = require(Form::create({.json_schema = each.schema}, vocabulary));
    for (const std::string& text : each.valid) CHECK_MESSAGE(accepts(*form, text), text);
    for (const std::string& text : each.invalid) CHECK_MESSAGE(!accepts(*form, text), text);
  }
}

TEST_CASE("documents drawn from masks are valid") {
  const auto vocabulary = fixture_vocabulary("gpt2");
  for (const Case& each : cases) {
    CAPTURE(std::string(each.schema));
    const json schema = json::parse(each.schema);
    const auto form = require(Form::create({.json_schema = each.schema}, vocabulary));
    FormWalk walk(*form, *vocabulary, 11);
    for (int round = 0; round < 12; ++round) {
      const std::optional<std::string> text = walk.text(25);
      if (!text) continue; // what must come is improbable
      const json document = json::parse(*text, nullptr, false);
      CHECK_MESSAGE((!document.is_discarded() && valid(schema, schema, document)), *text);
    }
  }
}

TEST_CASE("what a schema has that is not supported is refused with its place") {
  CHECK(error_of(R"({"properties": {"a": {"uniqueItems": true}}})") ==
        "the JSON schema, at \"/properties/a/uniqueItems\": the keyword uniqueItems is not supported");
  CHECK(error_of(R"({"$ref": "other.json"})") == "the JSON schema, at \"/$ref\": the $ref \"other.json\": "
                                                 "only places within the schema can be named, as in "
                                                 "#/$defs/NAME; nothing is fetched");
  CHECK(error_of(R"({"type": "string", "format": "regex"})") ==
        "the JSON schema, at \"/format\": the format \"regex\" is not supported");
  CHECK(error_of(R"({"oneOf": [{"type": "string"}, {"maxLength": 3}]})") ==
        "the JSON schema, at \"/oneOf\": oneOf is only supported where no two of its schemas can both be "
        "valid, and 0 and 1 "
        "may be: use anyOf");
  for (
      const char* wrong :
      {R"({"not": {}})", R"({"if": {}})", R"({"maxLenght": 3})", R"({"type": "strnig"})", R"({"items": 3})",
       "[]", "{", "3", R"({"minLength": "x"})", R"({"pattern": "("})", R"({"$ref": "#/a"})",
       R"({"required": "a"})", "{\"const\": \"\xFF\"}", R"({"enum": []})",
       R"({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "additionalProperties": false,
            "minProperties": 1})",
       R"({"allOf": [{"patternProperties": {"^x": {"type": "integer"}}}, {"additionalProperties": false}]})",
       // two schemas of a oneOf are valid at once, in what their forms have
       R"({"oneOf": [{"minimum": 5}, {"maxLength": 3}]})", R"({"oneOf": [{"const": 1}, {"const": 1.0}]})",
       R"({"allOf": [{"oneOf": [{"minimum": 5}, {"maxLength": 3}]}, {"title": "t"}]})",
       R"({"oneOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}]})",
       R"({"oneOf": [{"anyOf": [{"minLength": 1}]}, {"type": "object"}, {"type": "array"}, {"maxItems": 0}]})",
       R"({"$defs": {"m": {"required": ["k"], "properties": {"k": {"const": 1}}}}, "oneOf": [
            {"$ref": "#/$defs/m", "maxLength": 3}, {"required": ["k"], "properties": {"k": {"const": 2}}}]})",
       // numbers that would become others
       R"({"const": 18446744073709551617})", R"({"enum": [{"a": [-9223372036854775809]}]})",
       R"({"const": 1e400})", R"({"minimum": 18446744073709551616})", R"({"maximum": 1e400})",
       R"({"type": "number", "minimum": 9007199254740993})",
       R"({"type": "number", "exclusiveMaximum": 0.30000000000000004})",
       // what would be ignored
       R"({"minimum": "5"})", R"({"type": 5})", R"({"type": ["string", 5]})",
       R"({"allOf": [{"type": "object"}, {"required": "a"}]})",
       R"({"allOf": [{"enum": [1]}, {"enum": {"a": 1}}]})",
       R"({"properties": {"a": {}}, "patternProperties": {"(": false}, "additionalProperties": false})",
       R"({"properties": {"a": {"$id": "http://localhost/a", "type": "null"}}})",
       R"({"allOf": [{"type": "null"}, {"$id": "http://localhost/a"}]})",
       // a name that comes twice counts once
       R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2})",
       R"({"minProperties": 1, "maxProperties": 0})", R"({"minItems": 2, "maxItems": 1})",
       R"({"properties": 1})", R"({"anyOf": []})"}) {
    CAPTURE(wrong);
    CHECK(!error_of(wrong).empty());
  }
}
