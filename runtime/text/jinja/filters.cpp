// Filters of text and numbers.
#include "text/jinja/filters.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/formatting.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

Value otherwise(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("default", arguments, {"default_value", "boolean"});
  const bool replaced = value.is_undefined() || (given.is_true(1, false) && !is_true(value));
  if (!replaced) return value;
  return given.has(0) ? given[0] : Value("");
}

template <auto changed, bool keeps_markup>
Value text_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("filter", arguments, {});
  return with_markup(interpreter.text(changed(str(value))), keeps_markup && value.is_markup());
}

Value safe(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("safe", arguments, {});
  return make_markup(str(value));
}

Value escape(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("escape", arguments, {});
  return escaped(value);
}

Value force_escape(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("forceescape", arguments, {});
  return escaped(Value(str(value)));
}

Value string(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("string", arguments, {});
  return value.text() ? value : Value(str(value));
}

// Unlike the method: words begin after white space, hyphens and opening brackets, not after an apostrophe.
std::string title_words(std::string_view text) {
  std::string result;
  bool begins = true;
  for (std::string_view character : characters_of(text)) {
    const char32_t value = first_code_point(character).value;
    result += begins ? upper(character) : lower(character);
    begins = is_python_space(value) || std::u32string_view(U"-({[<").find(value) != std::u32string_view::npos;
  }
  return result;
}

std::string url_quoted(std::string_view text) {
  charge(text.size());
  std::string result;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (byte < 0x80 && std::isalnum(byte)) || std::string_view("_.-~/").find(c) != std::string::npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return result;
}

Value trim(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("trim", arguments, {"chars"});
  const std::string text = str(value);
  charge_text(text.size());
  const std::optional<std::string> set = given[0].is_none() ? std::nullopt : std::optional(given.text(0));
  return with_markup(Value(strip(text, Side::both, set)), value.is_markup());
}

Value replace_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("replace", arguments, {"old", "new", "count"}, 2);
  const Arguments plain{{Value(str(given[0])), Value(str(given[1])),
                         Value(given[2].is_none() ? Integer(-1) : given.integer(2, -1))},
                        {}};
  return interpreter.call(*method(Value(str(value)), "replace"), plain);
}

Value center(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("center", arguments, {"width"});
  return interpreter.call(*method(value.text() ? value : Value(str(value)), "center"),
                          {{Value(given.integer(0, 80))}, {}});
}

Value indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("indent", arguments, {"width", "first", "blank"});
  need_defined(value);
  if (!value.text()) fail("indent needs a string, not {}", type_name(value));
  const Integer width = given[0].text() ? 0 : std::max<Integer>(given.integer(0, 4), 0);
  if (width > 10'000) fail("indent is wider than 10000");
  const std::string space = given[0].text() ? *given[0].text() : std::string(static_cast<size_t>(width), ' ');
  const Items lines = split_lines(*value.text() + "\n", false);
  std::string result = given.is_true(1, false) ? space : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = *lines[i].text();
    if (i > 0) result += "\n";
    if (i > 0 && (!line.empty() || given.is_true(2, false))) result += space;
    charge_text(line.size() + space.size());
    result += line;
  }
  return with_markup(interpreter.text(std::move(result)), value.is_markup());
}

Value truncate(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = str(value);
  const std::string end = given.has(2) ? given.text(2) : "...";
  const Integer length = given.integer(0, 255), kept = length - static_cast<Integer>(count_characters(end));
  const Integer leeway = given[3].is_none() ? 5 : given.integer(3, 5);
  if (kept < 0 || leeway < 0) fail("truncate: the length must be at least that of the end");
  if (static_cast<Integer>(count_characters(text)) <= length + leeway) return string(interpreter, value, {});
  std::string head = text.substr(0, byte_of_character(text, static_cast<size_t>(kept)));
  if (!given.is_true(1, false)) head = head.substr(0, head.rfind(' '));
  return with_markup(interpreter.text(head + end), value.is_markup());
}

Value word_count(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("wordcount", arguments, {});
  size_t count = 0;
  bool inside = false;
  for (char32_t point : code_points_of(str(value))) {
    const bool word = is_word(point) || point == '_';
    count += word && !inside;
    inside = word;
  }
  return Value(count);
}

Value to_integer(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("int", arguments, {"default", "base"});
  need_defined(value);
  if (const std::optional<Integer> integer = value.integer()) return Value(*integer);
  const std::string* text = value.text();
  if (text) {
    if (const auto read = read_integer(*text, static_cast<int>(given.integer(1, 10)))) return Value(*read);
  }
  const std::optional<double> real = text ? read_float(*text) : value.number();
  if (real && std::fabs(*real) < 1e38) return Value(Integer(std::trunc(*real)));
  return given.has(0) ? given[0] : Value(0);
}

Value to_float(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("float", arguments, {"default"});
  need_defined(value);
  const std::optional<double> real = value.text() ? read_float(*value.text()) : value.number();
  if (real) return Value(*real);
  return given.has(0) ? given[0] : Value(0.0);
}

Value absolute(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("abs", arguments, {});
  need_defined(value);
  if (const std::optional<Integer> integer = value.integer())
    return Value(*integer < 0 ? subtract(0, *integer) : *integer);
  if (const double* real = value.real()) return Value(std::fabs(*real));
  fail("bad operand type for abs(): '{}'", type_name(value));
}

Value round_number(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound given("round", arguments, {"precision", "method"});
  need_defined(value);
  if (!value.number()) fail("type {} cannot be rounded", type_name(value));
  const std::string how = given.has(1) ? given.text(1) : "common";
  const Integer precision = given.integer(0, 0);
  if (precision < -300 || precision > 300) fail("round: the precision must be from -300 to 300");
  const auto digits = static_cast<int>(precision);
  const double number = *value.number();
  if (how == "ceil" || how == "floor") {
    const double scale = std::pow(10.0, digits);
    return Value((how == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale);
  }
  if (how != "common") fail("method must be common, ceil or floor");
  if (value.integer() && digits >= 0) return Value(*value.integer());
  if (digits >= 0) return Value(read_float(round_to(number, digits)).value_or(number));
  const double scale = std::pow(10.0, -digits);
  const double rounded = std::nearbyint(number / scale) * scale;
  if (value.integer() && std::fabs(rounded) >= 0x1p127) fail("round: the number is too large");
  return value.integer() ? Value(Integer(rounded)) : Value(rounded);
}

Value format_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (arguments.named.empty())
    return binary(interpreter, "%", string(interpreter, value, {}), make_tuple(arguments.positional));
  if (!arguments.positional.empty()) fail("can't handle positional and keyword arguments at the same time");
  Dict named;
  for (const auto& [name, item] : arguments.named) named.set(Value(name), item);
  return binary(interpreter, "%", string(interpreter, value, {}), make_dict(std::move(named)));
}

Value tojson(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = given.is_true(0, false);
  if (given[1].text()) {
    style.indent = *given[1].text();
  } else if (!given[1].is_none()) {
    style.indent = std::string(static_cast<size_t>(std::clamp<Integer>(given.integer(1, 0), 0, 1000)), ' ');
  }
  if (style.indent) style.item_separator = ',';
  if (!given[2].is_none()) {
    const Items separators = iterate(given[2]);
    if (separators.size() != 2 || !separators[0].text() || !separators[1].text())
      fail("tojson: separators must be two strings");
    style.item_separator = *separators[0].text();
    style.key_separator = *separators[1].text();
  }
  style.sort_keys = given.is_true(3, false);
  return interpreter.text(to_json(value, style));
}

} // namespace

const Filters& scalar_filters() {
  static const Filters filters = {
      {"default", otherwise},
      {"d", otherwise},
      {"string", string},
      {"safe", safe},
      {"escape", escape},
      {"e", escape},
      {"forceescape", force_escape},
      {"lower", text_filter<lower, true>},
      {"upper", text_filter<upper, true>},
      {"capitalize", text_filter<capitalize, true>},
      {"title", text_filter<title_words, false>},
      {"urlencode", text_filter<url_quoted, false>},
      {"trim", trim},
      {"replace", replace_filter},
      {"center", center},
      {"indent", indent},
      {"truncate", truncate},
      {"wordcount", word_count},
      {"int", to_integer},
      {"float", to_float},
      {"abs", absolute},
      {"round", round_number},
      {"format", format_filter},
      {"tojson", tojson},
  };
  return filters;
}

Filter find_filter(std::string_view name) {
  for (const Filters* filters : {&scalar_filters(), &sequence_filters()}) {
    if (const auto found = filters->find(name); found != filters->end()) return found->second;
  }
  return nullptr;
}

Value Interpreter::filter(std::string_view name, const Value& value, const Arguments& given) {
  charge_text(value.text() ? value.text()->size() : 0);
  const Filter found = find_filter(name);
  if (!found) fail("No filter named '{}'.", name);
  return found(*this, value, given);
}

} // namespace pumice::text::jinja
