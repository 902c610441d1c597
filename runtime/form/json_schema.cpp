#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "form/automaton.h"
#include "form/json_schema.h"
#include "form/json_values.h"
#include "form/schema_merge.h"
#include "io/json_text.h"
#include "text/unicode/unicode.h"

namespace pumice::form {

namespace {

// Most bytes of a schema, and most schemas that it consists of where those that are merged are counted again.
constexpr size_t most_schema_bytes = 256 << 10;
constexpr size_t most_schemas = 20'000;
// Most schemas within each other, by references too: each takes some KiB of a stack, which may be a small
// one.
constexpr uint32_t most_depth = 200;
constexpr size_t most_prefix_items = 500;
// Each pattern of names has a rule in which all patterns are.
constexpr size_t most_patterns = 50;

class SchemaCompiler {
public:
  SchemaCompiler(Grammar& grammar, const Json& document, ValueStyle style, std::optional<Part> raw_end,
                 Characters marks)
      : document_(document), grammar_(grammar), style_(style), raw_(style == ValueStyle::raw),
        raw_end_(raw_end), marks_(std::move(marks)) {}

  Result<Part> whole() { return named("#", document_, "", 0); }

  Result<JsonMembers> members() {
    PUMICE_TRY(const Json schema, merge(document_, work_, document_, Json{{"type", "object"}}, ""));
    JsonMembers result;
    if (schema == false) return unsupported("", "no object is valid");
    PUMICE_CHECK(check_keywords(schema, ""));
    for (const auto& [key, each] : schema.items()) {
      constexpr std::array<std::string_view, 4> known{"type", "properties", "required",
                                                      "additionalProperties"};
      if (!is_annotation(key) && std::ranges::find(known, key) == known.end())
        return unsupported("/" + key,
                           fmt::format("{} is not supported for arguments that are written one by one", key));
    }
    const Json rest = schema.value("additionalProperties", any_value);
    PUMICE_TRY(const Properties properties, properties_of(schema, rest, ""));
    for (const auto& [name, each] : properties.all) {
      PUMICE_TRY(const Part part, value(*each, "/properties/" + name, 1));
      result.named.push_back({name, properties.required.contains(name), part});
    }
    if (rest == false) return result;
    PUMICE_TRY(result.others, value(rest, "/additionalProperties", 1));
    return result;
  }

private:
  // Within what is written raw, all is JSON.
  class Nested {
  public:
    explicit Nested(bool& raw) : raw_(raw), before_(std::exchange(raw, false)) {}
    ~Nested() { raw_ = before_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

  private:
    bool& raw_;
    const bool before_;
  };

  struct Properties {
    std::vector<std::pair<std::string, const Json*>> all;
    size_t described = 0; // the first ones of them
    std::set<std::string> required;
  };
  // Those that are required and not described are what others are.
  static Result<Properties> properties_of(const Json& schema, const Json& others, const std::string& place) {
    Properties result;
    std::set<std::string> known;
    if (schema.contains("properties")) {
      if (!schema["properties"].is_object())
        return unsupported(place + "/properties", "an object is expected");
      for (const auto& [name, each] : schema["properties"].items()) {
        result.all.emplace_back(name, &each);
        known.insert(name);
      }
    }
    result.described = result.all.size();
    if (!schema.contains("required")) return result;
    if (!schema["required"].is_array())
      return unsupported(place + "/required", "a list of names is expected");
    for (const Json& each : schema["required"]) {
      if (!each.is_string()) return unsupported(place + "/required", "a list of names is expected");
      const auto name = each.get<std::string>();
      result.required.insert(name);
      if (known.insert(name).second) result.all.emplace_back(name, &others);
    }
    return result;
  }

  // A rule for a schema that may be referred to.
  Result<Part> named(const std::string& reference, const Json& schema, const std::string& place,
                     uint32_t depth) {
    const auto [known, added] =
        references_.try_emplace(reference, static_cast<uint32_t>(grammar_.rules.size()));
    const uint32_t rule = known->second;
    if (added) {
      grammar_.add_rule("the JSON schema, at \"" + place + "\",", std::vector<Grammar::Term>());
      PUMICE_TRY(const Part part, value(schema, place, depth));
      grammar_.rules[rule].terms = {{part, false}};
    }
    return grammar_.call(rule);
  }

  Result<Part> value(const Json& schema, const std::string& place, uint32_t depth) {
    if (depth > most_depth || ++schemas_ > most_schemas) return unsupported(place, "the schema is too large");
    if (schema == true || (schema.is_object() && schema.empty())) return any();
    if (schema == false) return grammar_.never();
    if (!schema.is_object()) return unsupported(place, "a schema that is no object and no boolean");
    PUMICE_CHECK(check_keywords(schema, place));
    if (&schema != &document_) PUMICE_CHECK(check_identifier(schema, place));
    Json rest = Json::object();
    for (const auto& [key, each] : schema.items()) {
      if (!is_annotation(key)) rest[key] = each;
    }
    if (rest.empty()) return any();
    if (rest.contains("$ref")) return reference(std::move(rest), place, depth);
    if (rest.contains("allOf")) {
      const Json all = take(rest, "allOf");
      if (!all.is_array() || all.empty())
        return unsupported(place + "/allOf", "allOf needs a list of schemas");
      Json merged = rest.empty() ? Json(true) : rest;
      for (size_t i = 0; i < all.size(); ++i) {
        PUMICE_TRY(merged, merge(document_, work_, merged, all[i], fmt::format("{}/allOf/{}", place, i)));
      }
      return value(merged, place, depth + 1);
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (rest.contains(key)) return alternatives(key, std::move(rest), place, depth);
    }
    if (rest.contains("enum") || rest.contains("const")) return values(rest, place);
    return typed(rest, place, depth);
  }

  static Json take(Json& schema, const char* key) {
    Json value = schema[key];
    schema.erase(key);
    return value;
  }

  // Any keyword that is not known is refused: what it asks for would be missing.
  static Status check_keywords(const Json& schema, const std::string& place) {
    constexpr std::array<std::string_view, 26> known{"$ref",
                                                     "allOf",
                                                     "anyOf",
                                                     "oneOf",
                                                     "enum",
                                                     "const",
                                                     "type",
                                                     "properties",
                                                     "required",
                                                     "additionalProperties",
                                                     "patternProperties",
                                                     "minProperties",
                                                     "maxProperties",
                                                     "items",
                                                     "prefixItems",
                                                     "minItems",
                                                     "maxItems",
                                                     "minLength",
                                                     "maxLength",
                                                     "pattern",
                                                     "format",
                                                     "minimum",
                                                     "maximum",
                                                     "exclusiveMinimum",
                                                     "exclusiveMaximum",
                                                     "uniqueItems"};
    for (const auto& [key, value] : schema.items()) {
      if (is_annotation(key)) continue;
      if (std::ranges::find(known, key) == known.end() || (key == "uniqueItems" && value != false))
        return unsupported(place + "/" + key, fmt::format("the keyword {} is not supported", shortened(key)));
      const bool is_limit = key.ends_with("inimum") || key.ends_with("aximum");
      const bool is_draft_4 = key.starts_with("exclusive") && value.is_boolean();
      if (is_limit && !value.is_number() && !is_draft_4)
        return unsupported(place + "/" + key, "a number is expected");
      const auto is_text = [](const Json& each) { return each.is_string(); };
      if (key == "type" && !value.is_string() && !(value.is_array() && std::ranges::all_of(value, is_text)))
        return unsupported(place + "/type", "a type or a list of types is expected");
    }
    return {};
  }

  Result<Part> reference(Json rest, const std::string& place, uint32_t depth) {
    const Json name = take(rest, "$ref");
    PUMICE_TRY(const Json* target, resolve(document_, name, place + "/$ref"));
    if (rest.empty() && raw_) return value(*target, name.get<std::string>().substr(1), depth + 1);
    if (rest.empty())
      return named(name.get<std::string>(), *target, name.get<std::string>().substr(1), depth + 1);
    PUMICE_TRY(const Json merged, merge(document_, work_, *target, rest, place));
    return value(merged, place, depth + 1);
  }

  Result<Part> alternatives(const char* key, Json rest, const std::string& place, uint32_t depth) {
    const Json all = take(rest, key);
    const std::string inside = place + "/" + key;
    if (!all.is_array() || all.empty())
      return unsupported(inside, fmt::format("{} needs a list of schemas", key));
    std::vector<Json> merged;
    for (size_t i = 0; i < all.size(); ++i) {
      if (rest.empty()) {
        merged.push_back(all[i]);
      } else {
        PUMICE_TRY(Json each, merge(document_, work_, rest, all[i], fmt::format("{}/{}", inside, i)));
        merged.push_back(std::move(each));
      }
    }
    if (key == std::string_view("oneOf")) PUMICE_CHECK(check_exclusive(document_, work_, merged, inside));
    std::vector<Part> parts;
    for (size_t i = 0; i < merged.size(); ++i) {
      PUMICE_TRY(const Part part, value(merged[i], fmt::format("{}/{}", inside, i), depth + 1));
      parts.push_back(part);
    }
    return grammar_.choice(std::move(parts));
  }

  // An enum or a const, which a type may limit.
  Result<Part> values(const Json& schema, const std::string& place) {
    for (const auto& [key, each] : schema.items()) {
      if (key != "enum" && key != "const" && key != "type")
        return unsupported(place + "/" + key, fmt::format("{} beside enum or const is not supported", key));
    }
    Json all = schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]});
    if (!all.is_array()) return unsupported(place + "/enum", "enum needs a list of values");
    const std::string only = schema.contains("const") ? value_key(schema["const"]) : "";
    std::vector<Part> parts;
    for (const Json& each : all) {
      if (schema.contains("const") && value_key(each) != only) continue;
      if (schema.contains("type") && !has_type(each, types_of(schema))) continue;
      if (is_inexact(each))
        return unsupported(place, "a number beyond 64 bits, of which a double keeps a part only");
      parts.push_back(literal(each));
    }
    return grammar_.choice(std::move(parts));
  }

  // Whether it has a number that may have been another one: large ones are read as the nearest double.
  static bool is_inexact(const Json& value) {
    if (value.is_structured()) return std::ranges::any_of(value, is_inexact);
    return value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63;
  }

  Part literal(const Json& value) {
    if (value.is_null()) return null();
    if (value.is_boolean()) return value.get<bool>() ? one_of({"true", "True"}) : one_of({"false", "False"});
    if (!value.is_string()) return json_literal(grammar_, value);
    const auto text = value.get<std::string>();
    if (raw_) return grammar_.text(text);
    const Part quoted = json_literal(grammar_, value);
    if (!is_python() || text.find_first_of("'\\\n\r\t") != std::string::npos) return quoted;
    return grammar_.choice({quoted, grammar_.text("'" + text + "'")});
  }

  // Whether values may be written as Python has them. Strings that are raw are not, but what is in lists.
  bool is_python() const { return style_ == ValueStyle::python || (style_ == ValueStyle::raw && !raw_); }

  // The second half of the words is Python's.
  Part one_of(std::vector<const char*> words) {
    if (style_ == ValueStyle::json) words.resize(words.size() / 2);
    std::vector<Part> parts;
    for (const char* each : words) parts.push_back(grammar_.text(each));
    return grammar_.choice(std::move(parts));
  }
  Part null() { return one_of({"null", "None"}); }
  Part boolean() { return one_of({"true", "false", "True", "False"}); }

  static bool has_type(const Json& value, const std::vector<std::string>& types) {
    return std::ranges::any_of(types, [&](const std::string& type) {
      if (type == "null") return value.is_null();
      if (type == "boolean") return value.is_boolean();
      if (type == "string") return value.is_string();
      if (type == "array") return value.is_array();
      if (type == "object") return value.is_object();
      if (type == "integer")
        return value.is_number_integer() ||
               (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
      return type == "number" && value.is_number();
    });
  }

  Result<Part> typed(const Json& schema, const std::string& place, uint32_t depth) {
    std::vector<Part> parts;
    for (const std::string& type : types_of(schema)) {
      Result<Part> part = grammar_.never();
      if (type == "null") {
        part = null();
      } else if (type == "boolean") {
        part = boolean();
      } else if (type == "string") {
        part = string(schema, place);
      } else if (type == "integer" || type == "number") {
        part = number(schema, place, type == "integer");
      } else if (type == "array") {
        part = array(schema, place, depth);
      } else if (type == "object") {
        part = object(schema, place, depth);
      } else {
        return unsupported(place + "/type", fmt::format("the type {}", type));
      }
      if (!part.ok()) return part;
      parts.push_back(*part);
    }
    return grammar_.choice(std::move(parts));
  }

  // Between the parts of lists and objects: a blank, or a line of their own. No more: a model that has lost
  // its way would write nothing else.
  Part space() {
    constexpr uint32_t deepest = 32; // that a line begins
    if (!space_) {
      const Part blank = grammar_.one_of({{'\t', '\t'}, {' ', ' '}});
      const Part line = grammar_.sequence(
          {grammar_.optional(grammar_.text("\r")), grammar_.text("\n"), grammar_.repeat(blank, 0, deepest)});
      Part all = grammar_.optional(grammar_.choice({blank, line}));
      if (style_ == ValueStyle::python) {
        const Part text = grammar_.repeat(grammar_.one_of(all_but({{'\n', '\n'}})), 0, unlimited);
        const Part comment =
            grammar_.sequence({grammar_.repeat(blank, 0, 2), grammar_.text("#"), text, line});
        all = grammar_.sequence({all, grammar_.repeat(comment, 0, unlimited)});
      }
      space_ = grammar_.add_rule("white space", all);
    }
    return grammar_.call(*space_);
  }
  Part comma() {
    if (style_ == ValueStyle::json) return json_comma(grammar_);
    return grammar_.sequence({space(), grammar_.text(","), space()});
  }
  Part colon() {
    if (style_ == ValueStyle::json) return json_colon(grammar_);
    return grammar_.sequence({space(), grammar_.text(":"), space()});
  }
  Part in_brackets(char open, Part content, char close) {
    if (style_ == ValueStyle::json) return json_in_brackets(grammar_, open, content, close);
    std::vector<Part> all{space(), content};
    if (is_python()) all.push_back(grammar_.optional(grammar_.sequence({space(), grammar_.text(",")})));
    all.push_back(space());
    return json_in_brackets(grammar_, open, grammar_.sequence(std::move(all)), close);
  }
  // Of a list: in Python, a tuple and a set are ones, too.
  Part list_of(Part content) {
    if (!is_python()) return in_brackets('[', content, ']');
    return grammar_.choice({in_brackets('[', content, ']'), in_brackets('(', content, ')')});
  }

  // Any value at all.
  Result<Part> any() {
    if (raw_) return raw_text({});
    if (!any_) {
      any_ = static_cast<uint32_t>(grammar_.rules.size());
      grammar_.add_rule("any value", std::vector<Grammar::Term>());
      PUMICE_TRY(const Part integer_or_decimal, number(Json::object(), "", false));
      const Part each = grammar_.call(*any_);
      const auto several = [&](Part one) {
        const Part more = grammar_.repeat(grammar_.sequence({comma(), one}), 0, unlimited);
        return grammar_.sequence({one, more});
      };
      const Part key = is_python() ? grammar_.choice({plain_string(), integer_or_decimal}) : plain_string();
      const Part member = grammar_.sequence({key, colon(), each});
      std::vector<Part> all{null(),
                            boolean(),
                            integer_or_decimal,
                            plain_string(),
                            list_of(grammar_.optional(several(each))),
                            in_brackets('{', grammar_.optional(several(member)), '}')};
      if (is_python()) all.push_back(in_brackets('{', several(each), '}')); // a set
      const Part part = grammar_.choice(std::move(all));
      grammar_.rules[*any_].terms = {{part, false}};
    }
    return grammar_.call(*any_);
  }

  // In all ways to write it. A rule of its own, so that all schemas have the same.
  Part plain_string() {
    if (!string_) {
      string_ = grammar_.add_rule("a string", whole_string(), true);
    }
    return grammar_.call(*string_);
  }

  Part whole_string() {
    const auto quoted = [&](Part character, char quote) {
      return json_in_brackets(grammar_, quote, grammar_.repeat(character, 0, unlimited), quote);
    };
    if (style_ == ValueStyle::json) return quoted(json_character(grammar_), '"');
    const Part escape = grammar_.sequence({grammar_.text("\\"), grammar_.one_of(all_but({{'u', 'u'}}))});
    const Part text =
        quoted(grammar_.choice({json_character(grammar_), grammar_.text("\n"), grammar_.text("\r"),
                                grammar_.text("\t"), grammar_.one_of(marks_), escape}),
               '"');
    if (!is_python()) return text;
    return python_strings(text);
  }

  // Strings of Python, given those of JSON: with letters before them, of three quotes, and beside each other.
  Part python_strings(Part json) {
    const auto one = [&](std::vector<CharacterRange> left_out) {
      return grammar_.one_of(and_marks(all_but(united(std::move(left_out)))));
    };
    const Part escape = grammar_.sequence({grammar_.text("\\"), grammar_.one_of(any_character())});
    std::vector<Part> all{json};
    for (const char quote : {'"', '\''}) {
      const auto q = static_cast<char32_t>(quote);
      const std::string three(3, quote);
      const auto quoted = [&](std::vector<CharacterRange> left_out) {
        left_out.insert(left_out.end(), {{q, q}, {'\\', '\\'}});
        const Part character = grammar_.choice({one(std::move(left_out)), escape});
        return json_in_brackets(grammar_, quote, grammar_.repeat(character, 0, unlimited), quote);
      };
      const auto letters = [&](std::vector<CharacterRange> which, uint32_t least) {
        return grammar_.repeat(grammar_.one_of(united(std::move(which))), least, 2);
      };
      const std::vector<CharacterRange> usual = {{'B', 'B'}, {'R', 'R'}, {'U', 'U'},
                                                 {'b', 'b'}, {'r', 'r'}, {'u', 'u'}};
      std::vector<CharacterRange> computed = usual; // where there is nothing to compute
      computed.insert(computed.end(), {{'F', 'F'}, {'f', 'f'}});
      all.push_back(grammar_.sequence({letters(usual, quote == '"'), quoted({})}));
      all.push_back(grammar_.sequence({letters(computed, 1), quoted({{'{', '{'}})}));
      std::vector<Grammar::Term> terms{{any_text()}};
      terms.push_back({grammar_.sequence({any_text(), grammar_.text(three)}), true, true});
      const Part content = grammar_.call(grammar_.add_rule("a string", std::move(terms), true));
      all.push_back(
          grammar_.sequence({letters(usual, 0), grammar_.text(three), content, grammar_.text(three)}));
    }
    const Part each = grammar_.choice(std::move(all));
    const Part strings =
        grammar_.sequence({each, grammar_.repeat(grammar_.sequence({space(), each}), 0, unlimited)});
    return grammar_.choice(
        {strings, json_in_brackets(grammar_, '(', grammar_.sequence({space(), strings, space()}), ')')});
  }

  Characters and_marks(Characters characters) const {
    characters.insert(characters.end(), marks_.begin(), marks_.end());
    return characters;
  }
  Part any_text() { return grammar_.repeat(grammar_.one_of(and_marks(any_character())), 0, unlimited); }

  // `terms`: that it fits, too.
  Part raw_text(std::vector<Grammar::Term> terms) {
    terms.push_back({any_text()});
    if (raw_end_) terms.push_back({grammar_.sequence({any_text(), *raw_end_}), true, true});
    return grammar_.call(grammar_.add_rule("a text", std::move(terms), true));
  }

  static Result<std::optional<uint32_t>> count(const Json& schema, const char* key,
                                               const std::string& place) {
    if (!schema.contains(key)) return std::optional<uint32_t>();
    const Json& value = schema[key];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || number != std::floor(number))
      return unsupported(place + "/" + key, "a number from 0 on is expected");
    return std::optional(static_cast<uint32_t>(std::min(number, 4e9)));
  }

  // The regular expression within quotes.
  Result<Part> quoted_regex(std::string_view regex, const std::string& place, Match match) {
    const Spelling itself = [](Grammar& to, const Characters& characters) { return to.one_of(characters); };
    PUMICE_TRY(const Part content,
               add_regex(grammar_, regex, fmt::format("the JSON schema, at \"{}\"", shortened(place)), match,
                         raw_ ? itself : json_spelling));
    return raw_ ? content : json_in_brackets(grammar_, '"', content, '"');
  }

  Result<Part> string(const Json& schema, const std::string& place) {
    PUMICE_TRY(const std::optional<uint32_t> least, count(schema, "minLength", place));
    PUMICE_TRY(const std::optional<uint32_t> most, count(schema, "maxLength", place));
    std::vector<Grammar::Term> terms;
    if (schema.contains("pattern")) {
      if (!schema["pattern"].is_string()) return unsupported(place + "/pattern", "a text is expected");
      PUMICE_TRY(const Part part,
                 quoted_regex(schema["pattern"].get<std::string>(), place + "/pattern", Match::anywhere));
      terms.push_back({part, false});
    }
    if (schema.contains("format")) {
      const std::string name = schema["format"].is_string() ? schema["format"].get<std::string>() : "";
      const std::optional<std::string_view> regex = json_format(name);
      if (!regex)
        return unsupported(place + "/format",
                           fmt::format("the format {} is not supported", schema["format"].dump()));
      PUMICE_TRY(const Part part, quoted_regex(*regex, place + "/format", Match::whole));
      terms.push_back({part, false});
    }
    if (terms.empty() && !least && !most) return raw_ ? raw_text({}) : plain_string();
    if (least || most) {
      if (least.value_or(0) > most.value_or(unlimited)) return grammar_.never();
      const Part character = raw_ ? grammar_.one_of(any_character()) : json_character(grammar_);
      const Part content = grammar_.repeat(character, least.value_or(0), most.value_or(unlimited));
      terms.push_back({raw_ ? content : json_in_brackets(grammar_, '"', content, '"'), false});
    }
    if (raw_) return raw_text(std::move(terms));
    const uint32_t rule = grammar_.add_rule(fmt::format("the JSON schema, at \"{}\",", shortened(place)),
                                            std::move(terms), true);
    return grammar_.call(rule);
  }

  Result<Part> number(const Json& schema, const std::string& place, bool integer) {
    const auto limit = [&](const char* inclusive, const char* exclusive, bool low) {
      std::optional<NumberLimit> found;
      if (schema.contains(inclusive)) found = {schema[inclusive], false};
      if (schema.contains(exclusive) && schema[exclusive].is_number()) {
        const bool tighter =
            !found || (low ? schema[exclusive] >= found->value : schema[exclusive] <= found->value);
        if (tighter) found = {schema[exclusive], true};
      } else if (schema.contains(exclusive) && schema[exclusive] == true && found) {
        found->exclusive = true; // as draft 4 has it
      }
      return found;
    };
    const auto low = limit("minimum", "exclusiveMinimum", true),
               high = limit("maximum", "exclusiveMaximum", false);
    Result<Part> json = integer ? json_integers(grammar_, low, high) : json_numbers(grammar_, low, high);
    if (!json.ok()) return unsupported(place, json.error().message);
    const bool python = style_ == ValueStyle::python || style_ == ValueStyle::raw;
    if (!python || low || high) return json;
#define DIGITS "(0|[1-9](_?[0-9])*)"
    constexpr std::string_view whole =
        "[+-]?(0[xX][0-9a-fA-F]{1,15}|0[oO][0-7]{1,15}|0[bB][01]{1,15}|" DIGITS "(\\.0?)?)";
    constexpr std::string_view decimal =
        "[+-]?(0[xX][0-9a-fA-F]{1,15}|0[oO][0-7]{1,15}|0[bB][01]{1,15}|(" DIGITS "?\\.[0-9](_?[0-9])*|" DIGITS
        "\\.?)([eE][+-]?[0-9]{1,3})?)";
#undef DIGITS
    const Spelling itself = [](Grammar& to, const Characters& characters) { return to.one_of(characters); };
    PUMICE_TRY(const Part own,
               add_regex(grammar_, integer ? whole : decimal, "a number", Match::whole, itself));
    return grammar_.choice({*json, own});
  }

  Result<Part> array(const Json& schema, const std::string& place, uint32_t depth) {
    const Nested nested(raw_);
    PUMICE_TRY(const std::optional<uint32_t> at_least, count(schema, "minItems", place));
    PUMICE_TRY(const std::optional<uint32_t> at_most, count(schema, "maxItems", place));
    const Json prefix = schema.contains("prefixItems") ? schema["prefixItems"] : Json::array();
    if (!prefix.is_array()) return unsupported(place + "/prefixItems", "a list of schemas is expected");
    if (prefix.size() > most_prefix_items)
      return unsupported(place + "/prefixItems",
                         fmt::format("there are more than {} schemas", most_prefix_items));
    const uint32_t least = at_least.value_or(0), most = at_most.value_or(unlimited);
    if (least > most) return grammar_.never();
    const auto first = static_cast<uint32_t>(std::min<size_t>(prefix.size(), most));
    // From the end: what may follow so many items.
    Part tail = grammar_.text("");
    if (most > first) {
      PUMICE_TRY(const Part item,
                 value(schema.contains("items") ? schema["items"] : any_value, place + "/items", depth + 1));
      const bool never = grammar_.parts[item].kind == Grammar::Kind::never;
      const uint32_t needed = least > first ? least - first : 0;
      if (never && needed > 0) return grammar_.never();
      if (!never) {
        const uint32_t room = most == unlimited ? unlimited : most - first;
        const auto more = [&](uint32_t low, uint32_t high) {
          return grammar_.repeat(grammar_.sequence({comma(), item}), low, high);
        };
        if (first > 0) {
          tail = more(needed, room);
        } else {
          const Part all = grammar_.sequence(
              {item, more(needed ? needed - 1 : 0, room == unlimited ? unlimited : room - 1)});
          tail = needed ? all : grammar_.optional(all);
        }
      }
    } else if (least > first) {
      return grammar_.never();
    }
    for (uint32_t i = first; i-- > 0;) {
      PUMICE_TRY(const Part item, value(prefix[i], fmt::format("{}/prefixItems/{}", place, i), depth + 1));
      const Part here = i > 0 ? grammar_.sequence({comma(), item, tail}) : grammar_.sequence({item, tail});
      tail = i < least ? here : grammar_.optional(here);
    }
    return list_of(tail);
  }

  // Properties whose names are not given: a pattern of names, or what is left.
  struct Others {
    std::optional<std::string> pattern;
    Json schema;
    std::string place;
  };

  Result<Part> object(const Json& schema, const std::string& place, uint32_t depth) {
    const Nested nested(raw_);
    const Json patterns = schema.contains("patternProperties") ? schema["patternProperties"] : Json::object();
    if (!patterns.is_object() || patterns.size() > most_patterns)
      return unsupported(place + "/patternProperties",
                         fmt::format("an object of at most {} patterns is expected", most_patterns));
    const Json rest = schema.contains("additionalProperties") ? schema["additionalProperties"] : any_value;
    std::vector<Others> others;
    for (const auto& [pattern, each] : patterns.items())
      others.push_back({pattern, each, place + "/patternProperties/" + pattern});
    PUMICE_TRY(const Properties properties, properties_of(schema, rest, place));
    std::vector<Part> fields;
    for (size_t i = 0; i < properties.all.size(); ++i) {
      const std::string& name = properties.all[i].first;
      Json whole = *properties.all[i].second;
      bool is_rest = i >= properties.described;
      for (const Others& other : others) {
        PUMICE_TRY(const bool fits, matches(other, name));
        if (!fits) continue;
        PUMICE_TRY(whole, merge(document_, work_, std::exchange(is_rest, false) ? any_value : whole,
                                other.schema, place));
      }
      PUMICE_TRY(const Part content, value(whole, place + "/properties/" + name, depth + 1));
      const Part key = grammar_.sequence({literal(Json(name)), colon()});
      const Part field = grammar_.sequence({key, content});
      const bool never = grammar_.parts[field].kind == Grammar::Kind::never;
      const bool required = properties.required.contains(name);
      if (never && required) return grammar_.never();
      if (!never) fields.push_back(required ? field : grammar_.optional(field));
    }
    others.push_back({std::nullopt, rest, place + "/additionalProperties"});
    PUMICE_TRY(const std::optional<Part> more, other_fields(others, properties, depth));
    return counted_fields(schema, place, std::move(fields), more, properties.required.size());
  }

  // Whether a name matches a pattern.
  Result<bool> matches(const Others& other, const std::string& name) {
    const auto [known, added] = name_patterns_.try_emplace(*other.pattern);
    std::unique_ptr<Automaton>& automaton = known->second;
    if (added) {
      Grammar grammar;
      const Spelling itself = [](Grammar& to, const Characters& characters) { return to.one_of(characters); };
      const std::string what = fmt::format("the JSON schema, at \"{}\"", shortened(other.place));
      PUMICE_TRY(const Part part, add_regex(grammar, *other.pattern, what, Match::anywhere, itself));
      PUMICE_TRY(Nfa nfa, make_nfa(grammar, {}, grammar.add_rule(what, part)));
      automaton = std::make_unique<Automaton>(std::move(nfa));
    }
    const State* at = automaton->start();
    for (const char c : name) {
      if (at) at = automaton->next(at, static_cast<uint8_t>(c));
    }
    if (automaton->too_large()) return unsupported(other.place, "the pattern has too many states");
    return at && at->ends;
  }

  // A property that is not named: its name fits one pattern, and no other one, or none.
  Result<std::optional<Part>> other_fields(const std::vector<Others>& others, const Properties& properties,
                                           uint32_t depth) {
    std::vector<Part> parts;
    for (const Others& other : others) {
      PUMICE_TRY(const Part content, value(other.schema, other.place, depth + 1));
      if (grammar_.parts[content].kind == Grammar::Kind::never) continue;
      Part name = plain_string();
      if (!properties.all.empty() || others.size() > 1) {
        // Each name is written in one way only, so that none is a given one in disguise.
        const Part characters = grammar_.repeat(json_spelling(grammar_, any_character()), 0, unlimited);
        std::vector<Grammar::Term> terms{{json_in_brackets(grammar_, '"', characters, '"'), false}};
        std::vector<Part> given;
        for (const auto& [key, each] : properties.all) given.push_back(grammar_.text(Json(key).dump()));
        if (!given.empty()) terms.push_back({grammar_.choice(std::move(given)), true});
        for (const Others& each : others) {
          if (!each.pattern) continue;
          PUMICE_TRY(const Part pattern, quoted_regex(*each.pattern, each.place, Match::anywhere));
          terms.push_back({pattern, &each != &other});
        }
        name = grammar_.call(grammar_.add_rule(other.place, std::move(terms), true));
      }
      parts.push_back(grammar_.sequence({name, colon(), content}));
    }
    return parts.empty() ? std::optional<Part>() : std::optional(grammar_.choice(std::move(parts)));
  }

  Result<Part> counted_fields(const Json& schema, const std::string& place, std::vector<Part> fields,
                              std::optional<Part> more, size_t required) {
    PUMICE_TRY(const std::optional<uint32_t> least, count(schema, "minProperties", place));
    PUMICE_TRY(const std::optional<uint32_t> most, count(schema, "maxProperties", place));
    const bool too_few = least && *least > required, too_many = most && (more || fields.size() > *most);
    if (fields.empty() && more && (too_few || too_many)) {
      const uint32_t low = least.value_or(0), high = most.value_or(unlimited);
      if (low > high) return grammar_.never();
      if (high == 0) return grammar_.text("{}");
      if (low > 1)
        return unsupported(place + "/minProperties",
                           "minProperties above 1 is only supported for names that are required: others may "
                           "come twice, and count once");
      const Part further = grammar_.repeat(grammar_.sequence({comma(), *more}), low ? low - 1 : 0,
                                           high == unlimited ? unlimited : high - 1);
      const Part all = grammar_.sequence({*more, further});
      return in_brackets('{', low ? all : grammar_.optional(all), '}');
    }
    if (too_few)
      return unsupported(place + "/minProperties",
                         "minProperties is only supported without properties that may be left out");
    if (too_many)
      return unsupported(place + "/maxProperties",
                         "maxProperties is only supported without named properties");
    if (more) fields.push_back(grammar_.repeat(*more, 0, unlimited));
    return in_brackets('{', grammar_.list(comma(), std::move(fields)), '}');
  }

  const Json& document_;
  Grammar& grammar_;
  const ValueStyle style_;
  bool raw_; // a string is written without quotes here
  const std::optional<Part> raw_end_;
  const Characters marks_;
  std::map<std::string, uint32_t> references_;
  std::map<std::string, std::unique_ptr<Automaton>> name_patterns_;
  SchemaWork work_;
  std::optional<uint32_t> any_, string_, space_;
  size_t schemas_ = 0;
};

} // namespace

Result<Part> add_json_schema(Grammar& grammar, const Json& schema, ValueStyle style, Characters marks) {
  return SchemaCompiler(grammar, schema, style, {}, std::move(marks)).whole();
}

Result<JsonMembers> add_json_members(Grammar& grammar, const Json& schema, ValueStyle style,
                                     std::optional<Part> raw_end, Characters marks) {
  return SchemaCompiler(grammar, schema, style, raw_end, std::move(marks)).members();
}

Result<Grammar> parse_json_schema(std::string_view schema) {
  if (schema.size() > most_schema_bytes)
    return Error{Code::unsupported,
                 fmt::format("the JSON schema has more than {} KiB", most_schema_bytes >> 10)};
  if (!text::is_valid_utf8(schema))
    return Error{Code::invalid_argument, "the JSON schema is not valid UTF-8"};
  PUMICE_TRY(const Json document, parse_ordered_json(schema, "the JSON schema"));
  Grammar grammar;
  PUMICE_TRY(const Part part, add_json_schema(grammar, document, ValueStyle::json));
  grammar.root = grammar.add_rule("the JSON schema", part);
  return grammar;
}

} // namespace pumice::form
