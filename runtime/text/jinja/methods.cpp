// The methods of strings, lists, tuples and dicts. Those that would change a value are left out, as in
// transformers' sandbox, but for the two that it forgets: pop and clear of a list.
#include <algorithm>
#include <array>
#include <map>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/formatting.h"
#include "text/jinja/function.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);
using Methods = std::map<std::string_view, Method>;

std::optional<std::string> text_or_none(const Bound& given, size_t index) {
  if (given[index].is_none()) return std::nullopt;
  return given.text(index);
}

template <Side side>
Value strip_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("strip", arguments, {"chars"});
  const std::optional<std::string> set = text_or_none(given, 0);
  return Value(strip(*self.text(), side, set ? std::optional<std::string_view>(*set) : std::nullopt));
}

template <auto splits>
Value split_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("split", arguments, {"sep", "maxsplit"});
  const std::optional<std::string> separator = text_or_none(given, 0);
  return make_list(splits(*self.text(),
                          separator ? std::optional<std::string_view>(*separator) : std::nullopt,
                          given.integer(1, -1)));
}

template <auto changed>
Value text_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound given("method", arguments, {});
  return interpreter.text(changed(*self.text()));
}

// The part of a text between two character indices, and where it begins in bytes.
std::string_view part_of(const std::string& text, const Bound& given) {
  if (!given.has(1) && !given.has(2)) return text;
  const auto size = static_cast<Integer>(count_characters(text));
  const auto place = [&](size_t index, Integer otherwise) {
    Integer at = given[index].is_none() ? otherwise : given.integer(index, otherwise);
    if (at < 0) at = std::max<Integer>(at + size, 0);
    return byte_of_character(text, static_cast<size_t>(std::min(at, size)));
  };
  const size_t begin = place(1, 0), end = place(2, size);
  if (given.integer(1, 0) > size) fail("a substring begins after the end of its text");
  return std::string_view(text).substr(begin, end < begin ? 0 : end - begin);
}

template <bool at_start>
Value affix_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given(at_start ? "startswith" : "endswith", arguments, {"prefix", "start", "end"}, 1);
  const std::string_view text = part_of(*self.text(), given);
  const auto fits = [&](const Value& affix) {
    if (!affix.text())
      fail("startswith and endswith need a string or a tuple of strings, not {}", type_name(affix));
    return at_start ? text.starts_with(*affix.text()) : text.ends_with(*affix.text());
  };
  const Sequence* several = given[0].sequence();
  if (several && several->is_tuple())
    return Value(std::any_of(several->items.begin(), several->items.end(), fits));
  need_defined(given[0]);
  return Value(fits(given[0]));
}

// from_right: rfind and rindex; must: index and rindex, which fail where there is nothing.
template <bool from_right, bool must>
Value find_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("find", arguments, {"sub", "start", "end"}, 1);
  const std::string sought = given.text(0);
  const std::string_view text = part_of(*self.text(), given);
  const size_t at = from_right ? find_last(text, sought) : find(text, sought);
  if (at != std::string::npos) {
    const auto before = static_cast<size_t>(text.data() - self.text()->data());
    return Value(count_characters(std::string_view(*self.text()).substr(0, before + at)));
  }
  if (must) fail("substring not found");
  return Value(-1);
}

Value replace_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound given("replace", arguments, {"old", "new", "count"}, 2);
  return interpreter.text(replace(*self.text(), given.text(0), given.text(1), given.integer(2, -1)));
}

Value join_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound given("join", arguments, {"iterable"}, 1);
  std::string joined;
  bool first = true;
  for (const Value& item : iterate(given[0])) {
    if (!item.text() && !self.is_markup()) fail("join() needs strings, and found {}", type_name(item));
    if (!std::exchange(first, false)) joined += *self.text();
    const Value added = self.is_markup() ? escaped(item) : item;
    charge_text(self.text()->size() + added.text()->size());
    joined += *added.text();
  }
  return interpreter.text(std::move(joined));
}

Value count_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("count", arguments, {"sub", "start", "end"}, 1);
  const std::string sought = given.text(0);
  std::string_view text = part_of(*self.text(), given);
  if (sought.empty()) return Value(count_characters(text) + 1);
  size_t count = 0;
  for (size_t at; (at = find(text, sought)) != std::string::npos; ++count)
    text.remove_prefix(at + sought.size());
  return Value(count);
}

template <bool from_right>
Value partition_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("partition", arguments, {"sep"}, 1);
  const std::string separator = given.text(0);
  const std::string_view text = *self.text();
  if (separator.empty()) fail("empty separator");
  const size_t at = from_right ? find_last(text, separator) : find(text, separator);
  if (at == std::string::npos) {
    return from_right ? make_tuple({Value(""), Value(""), self}) : make_tuple({self, Value(""), Value("")});
  }
  return make_tuple({Value(text.substr(0, at)), Value(separator), Value(text.substr(at + separator.size()))});
}

template <bool at_start>
Value remove_affix_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("removeprefix", arguments, {"prefix"}, 1);
  std::string_view text = *self.text();
  const std::string affix = given.text(0);
  if (at_start && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!at_start && text.ends_with(affix)) text.remove_suffix(affix.size());
  return Value(text);
}

template <char align>
Value justify_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound given("ljust", arguments, {"width", "fillchar"}, 1);
  const std::string fill = given.has(1) ? given.text(1) : " ";
  if (count_characters(fill) != 1) fail("The fill character must be exactly one character long");
  const auto length = static_cast<Integer>(count_characters(*self.text()));
  const Integer missing = std::clamp<Integer>(given.integer(0, 0) - length, 0, Integer(1) << 40);
  const Integer left = align == '<'   ? 0
                       : align == '>' ? missing
                                      : missing / 2 + (missing & (length + missing) & 1);
  charge_text(static_cast<size_t>(missing));
  std::string padded;
  for (Integer i = 0; i < left; ++i) padded += fill;
  padded += *self.text();
  for (Integer i = left; i < missing; ++i) padded += fill;
  return interpreter.text(std::move(padded));
}

Value zfill_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound given("zfill", arguments, {"width"}, 1);
  const std::string& text = *self.text();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const Integer missing =
      std::max<Integer>(given.integer(0, 0) - static_cast<Integer>(count_characters(text)), 0);
  charge_text(static_cast<size_t>(std::min(missing, Integer(1) << 40)));
  return interpreter.text(text.substr(0, sign) + std::string(static_cast<size_t>(missing), '0') +
                          text.substr(sign));
}

Value lines_method(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("splitlines", arguments, {"keepends"});
  charge(self.text()->size() / 4);
  return make_list(split_lines(*self.text(), given.is_true(0, false)));
}

Value format_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return interpreter.text(format_braces(self, arguments));
}

std::string swap_case(std::string_view text) {
  std::string swapped;
  for (std::string_view character : characters_of(text)) {
    const std::string raised = upper(character);
    swapped += raised == character ? lower(character) : raised;
  }
  return swapped;
}

enum class Letter { digit, letter, word, space, printable, ascii };

bool is_of(Letter letter, char32_t value) {
  switch (letter) {
  case Letter::digit:
    return is_number(value);
  case Letter::letter:
    return is_word(value) && !is_number(value) && value != '_';
  case Letter::word:
    return is_word(value) && value != '_';
  case Letter::space:
    return is_python_space(value);
  case Letter::printable:
    return is_printable(value);
  case Letter::ascii:
    return value < 0x80;
  }
  return false;
}

template <Letter letter>
Value text_test(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("method", arguments, {});
  const std::u32string points = code_points_of(*self.text());
  const bool all =
      std::all_of(points.begin(), points.end(), [](char32_t value) { return is_of(letter, value); });
  return Value(all && (!points.empty() || letter == Letter::printable || letter == Letter::ascii));
}

template <Letters letters>
Value text_method_case(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("method", arguments, {});
  return Value(is_all(*self.text(), letters));
}

const Methods& string_methods() {
  static const Methods methods = {
      {"strip", strip_method<Side::both>},
      {"lstrip", strip_method<Side::left>},
      {"rstrip", strip_method<Side::right>},
      {"split", split_method<split>},
      {"rsplit", split_method<split_from_right>},
      {"splitlines", lines_method},
      {"lower", text_method<lower>},
      {"casefold", text_method<lower>},
      {"upper", text_method<upper>},
      {"capitalize", text_method<capitalize>},
      {"title", text_method<title>},
      {"swapcase", text_method<swap_case>},
      {"startswith", affix_method<true>},
      {"endswith", affix_method<false>},
      {"find", find_method<false, false>},
      {"rfind", find_method<true, false>},
      {"index", find_method<false, true>},
      {"rindex", find_method<true, true>},
      {"replace", replace_method},
      {"join", join_method},
      {"count", count_method},
      {"partition", partition_method<false>},
      {"rpartition", partition_method<true>},
      {"removeprefix", remove_affix_method<true>},
      {"removesuffix", remove_affix_method<false>},
      {"ljust", justify_method<'<'>},
      {"rjust", justify_method<'>'>},
      {"center", justify_method<'^'>},
      {"zfill", zfill_method},
      {"format", format_method},
      {"isdigit", text_test<Letter::digit>},
      {"isdecimal", text_test<Letter::digit>},
      {"isnumeric", text_test<Letter::digit>},
      {"isalpha", text_test<Letter::letter>},
      {"isalnum", text_test<Letter::word>},
      {"isspace", text_test<Letter::space>},
      {"isprintable", text_test<Letter::printable>},
      {"isascii", text_test<Letter::ascii>},
      {"islower", text_method_case<Letters::lower>},
      {"isupper", text_method_case<Letters::upper>},
  };
  return methods;
}

Value index_of(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("index", arguments, {"value"}, 1);
  const Items& items = self.sequence()->items;
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, given[0]); });
  if (found == items.end()) fail("the value is not in the list");
  return Value(static_cast<size_t>(found - items.begin()));
}

Value count_of(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("count", arguments, {"value"}, 1);
  const Items& items = self.sequence()->items;
  return Value(static_cast<size_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, given[0]); })));
}

Value pop(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("pop", arguments, {"index"});
  Items& items = self.sequence()->items;
  charge(items.size() / 16);
  const auto size = static_cast<Integer>(items.size());
  Integer index = given.integer(0, -1);
  if (index < 0) index += size;
  if (index < 0 || index >= size)
    fail("{}", items.empty() ? "pop from empty list" : "pop index out of range");
  const auto place = items.begin() + static_cast<std::ptrdiff_t>(index);
  Value taken = std::move(*place);
  items.erase(place);
  return taken;
}

Value clear(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("clear", arguments, {});
  self.sequence()->items.clear();
  return {};
}

Value copy(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("copy", arguments, {});
  if (self.dict()) return self; // which nothing can change
  charge(self.sequence()->items.size());
  return make_list(self.sequence()->items);
}

const Methods& list_methods() {
  static const Methods methods = {
      {"index", index_of}, {"count", count_of}, {"pop", pop}, {"clear", clear}, {"copy", copy}};
  return methods;
}

const Methods& tuple_methods() {
  static const Methods methods = {{"index", index_of}, {"count", count_of}};
  return methods;
}

template <Sequence::Kind kind>
Value view(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("items", arguments, {});
  Items items;
  for (const auto& [key, value] : self.dict()->entries()) {
    if (kind == Sequence::Kind::items) {
      items.push_back(make_tuple({key, value}));
    } else {
      items.push_back(kind == Sequence::Kind::keys ? key : value);
    }
  }
  charge(items.size());
  return make_sequence(kind, std::move(items));
}

Value get(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound given("get", arguments, {"key", "default"}, 1);
  const Value* found = self.dict()->find(given[0]);
  return found ? *found : given[1];
}

const Methods& dict_methods() {
  static const Methods methods = {{"get", get},
                                  {"items", view<Sequence::Kind::items>},
                                  {"keys", view<Sequence::Kind::keys>},
                                  {"values", view<Sequence::Kind::values>},
                                  {"copy", copy}};
  return methods;
}

// Methods that Python has, and that the sandbox withholds.
bool is_withheld(const Value& self, std::string_view name) {
  static constexpr std::array<std::string_view, 6> of_list = {"append", "reverse", "insert",
                                                              "sort",   "extend",  "remove"};
  static constexpr std::array<std::string_view, 5> of_dict = {"clear", "pop", "popitem", "setdefault",
                                                              "update"};
  const auto has = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return self.dict() ? has(of_dict) : self.sequence()->kind == Sequence::Kind::list && has(of_list);
}

const Methods* methods_of(const Value& self) {
  if (self.text()) return &string_methods();
  if (self.dict()) return &dict_methods();
  if (!self.sequence()) return nullptr;
  if (self.sequence()->is_tuple()) return &tuple_methods();
  return self.sequence()->kind == Sequence::Kind::list ? &list_methods() : nullptr;
}

bool is_among(std::initializer_list<std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Text, and the texts of a list or tuple, as markup.
Value marked(const Value& value) {
  if (value.text()) return with_markup(value, true);
  const Sequence* sequence = value.sequence();
  if (!sequence) return value;
  Items items;
  for (const Value& item : sequence->items) items.push_back(marked(item));
  return make_sequence(sequence->kind, std::move(items));
}

// As markupsafe has it: what a method of markup makes is markup, and what it puts into it is escaped.
Value call_of_markup(std::string_view name, Method body, Interpreter& interpreter, const Value& self,
                     Arguments arguments) {
  if (is_among(
          {"replace", "ljust", "rjust", "center", "strip", "lstrip", "rstrip", "partition", "rpartition"},
          name)) {
    for (Value& argument : arguments.positional) argument = argument.text() ? escaped(argument) : argument;
    for (auto& [key, argument] : arguments.named) argument = argument.text() ? escaped(argument) : argument;
  }
  const Value made = body(interpreter, self, arguments);
  return is_among({"casefold", "removeprefix", "removesuffix"}, name) ? made : marked(made);
}

// The method as a value, which holds whose method it is.
Value bound_method(const Value& self, std::string_view name, Method body) {
  charge(8);
  const auto function = std::make_shared<Function>(
      std::string(name),
      [self, body, name = std::string(name)](Interpreter& interpreter, const Arguments& arguments) {
        if (const std::string* text = self.text()) charge_text(text->size());
        if (self.is_markup()) return call_of_markup(name, body, interpreter, self, arguments);
        return body(interpreter, self, arguments);
      });
  function->height = above(height_of(self));
  return Value(std::shared_ptr<Object>(function));
}

} // namespace

std::optional<Value> method(const Value& self, std::string_view name) {
  const Methods* methods = methods_of(self);
  if (!methods) return std::nullopt;
  if (const auto found = methods->find(name); found != methods->end()) {
    return bound_method(self, name, found->second);
  }
  if (!self.text() && is_withheld(self, name))
    return undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(self)));
  return std::nullopt;
}

} // namespace pumice::text::jinja
