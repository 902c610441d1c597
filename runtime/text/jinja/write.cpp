#include "text/jinja/write.h"

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

constexpr int deepest_text = 500; // namespaces can hold themselves

void append(std::string& result, const Value& value, int depth);

void append_items(std::string& result, const Items& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result += ", ";
    append(result, items[i], depth);
  }
}

void append_dict(std::string& result, const Dict& dict, int depth) {
  result += '{';
  for (size_t i = 0; i < dict.size(); ++i) {
    if (i > 0) result += ", ";
    append(result, dict.entries()[i].first, depth);
    result += ": ";
    append(result, dict.entries()[i].second, depth);
  }
  result += '}';
}

void append_sequence(std::string& result, const Sequence& sequence, int depth) {
  using Kind = Sequence::Kind;
  if (sequence.is_tuple()) {
    result += '(';
    append_items(result, sequence.items, depth);
    result += sequence.items.size() == 1 ? ",)" : ")";
  } else if (sequence.kind == Kind::range) {
    result += "range(" + write_integer(sequence.start) + ", " + write_integer(sequence.stop);
    result += sequence.step == 1 ? ")" : ", " + write_integer(sequence.step) + ")";
  } else if (sequence.is_generator()) {
    result += "<generator object>";
  } else {
    const bool list = sequence.kind == Kind::list;
    if (!list) result += type_name(Value(std::make_shared<Sequence>(Sequence{sequence.kind, {}}))) + "(";
    result += '[';
    append_items(result, sequence.items, depth);
    result += list ? "]" : "])";
  }
}

void append_namespace(std::string& result, const Namespace& names, int depth) {
  Dict dict;
  for (const auto& [name, value] : names.attributes) dict.set(Value(name), value);
  result += "<Namespace ";
  append_dict(result, dict, depth);
  result += '>';
}

void append(std::string& result, const Value& value, int depth) {
  charge(1);
  if (depth > deepest_text) fail("a value nests more than {} deep", deepest_text);
  if (value.is_undefined()) {
    result += "Undefined";
  } else if (value.is_none()) {
    result += "None";
  } else if (const bool* boolean = value.boolean()) {
    result += *boolean ? "True" : "False";
  } else if (const std::optional<Integer> integer = value.integer()) {
    result += write_integer(*integer);
  } else if (const double* real = value.real()) {
    result += write_float(*real);
  } else if (const std::string* text = value.text()) {
    charge_text(text->size());
    result += value.is_markup() ? "Markup(" + repr_text(*text) + ")" : repr_text(*text);
  } else if (const Dict* dict = value.dict()) {
    append_dict(result, *dict, depth + 1);
  } else if (const Sequence* sequence = value.sequence()) {
    append_sequence(result, *sequence, depth + 1);
  } else if (const auto* names = dynamic_cast<const Namespace*>(value.object())) {
    append_namespace(result, *names, depth + 1);
  } else {
    result += fmt::format("<{}>", value.object()->type());
  }
}

} // namespace

std::string repr_text(std::string_view text) {
  const bool single = text.find('\'') != std::string::npos;
  const char quote = single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const char32_t c = point.value;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      result += text.substr(0, point.length);
    } else {
      const auto number = static_cast<uint32_t>(c);
      result += number < 0x100     ? fmt::format("\\x{:02x}", number)
                : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                   : fmt::format("\\U{:08x}", number);
    }
    text.remove_prefix(point.length);
  }
  return result + quote;
}

std::string repr(const Value& value) {
  std::string result;
  append(result, value, 0);
  return result;
}

std::string str(const Value& value) {
  if (value.is_undefined()) return "";
  if (const std::string* text = value.text()) return *text;
  return repr(value);
}

} // namespace pumice::text::jinja
