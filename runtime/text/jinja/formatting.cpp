// Python's two ways to format text: '%d' % value and '{:d}'.format(value).
#include "text/jinja/formatting.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/function.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

constexpr int widest = 10'000;

struct Layout {
  std::string fill = " ";
  char align = '\0'; // < > ^ =
  char sign = '-';   // - + or a space
  bool alternate = false, grouped = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

std::string grouped(std::string digits) {
  size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  while (end > 3) digits.insert(end -= 3, ",");
  return digits;
}

std::string padded(const std::string& text, const Layout& layout, char otherwise) {
  const size_t length = count_characters(text);
  const auto width = static_cast<size_t>(layout.width);
  charge_text(width);
  if (length >= width) return text;
  const char align = layout.align ? layout.align : otherwise;
  const size_t left = align == '<' ? 0 : align == '^' ? (width - length) / 2 : width - length;
  const auto fill = [&](size_t count) {
    std::string made;
    for (size_t i = 0; i < count; ++i) made += layout.fill;
    return made;
  };
  const size_t sign =
      align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
  return text.substr(0, sign) + fill(left) + text.substr(sign) + fill(width - length - left);
}

std::string digits_of(Integer value, const Layout& layout) {
  const auto digits = [&](std::string_view prefix, int base) {
    return std::string(layout.alternate ? prefix : "") + write_integer(value, base);
  };
  switch (layout.type) {
  case 'x':
    return digits("0x", 16);
  case 'X':
    return upper(digits("0x", 16));
  case 'o':
    return digits("0o", 8);
  case 'b':
    return digits("0b", 2);
  default:
    return write_integer(value);
  }
}

std::string digits_of(double value, const Layout& layout) {
  const int precision = layout.precision < 0 ? 6 : layout.precision;
  charge(static_cast<size_t>(precision));
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "nan";
  switch (layout.type) {
  case 'e':
    return fmt::format("{:.{}e}", value, precision);
  case 'E':
    return fmt::format("{:.{}E}", value, precision);
  case 'g':
  case 'G':
    return fmt::format("{:.{}g}", value, precision == 0 ? 1 : precision);
  case '%':
    return fmt::format("{:.{}f}%", value * 100, precision);
  case '\0':
    if (layout.precision < 0) return write_float(value);
    return fmt::format("{:.{}g}", value, precision == 0 ? 1 : precision);
  default:
    return fmt::format("{:.{}f}", value, precision);
  }
}

std::string number_text(const Value& value, const Layout& layout) {
  const std::optional<Integer> integer = value.integer();
  const bool as_real =
      std::string_view("eEfFgG%").find(layout.type) != std::string::npos && layout.type != '\0';
  std::string digits;
  bool negative = false;
  if (integer && !as_real) {
    negative = *integer < 0;
    digits = digits_of(negative ? subtract(0, *integer) : *integer, layout);
  } else {
    const double number = *value.number();
    negative = std::signbit(number);
    digits = digits_of(std::fabs(number), layout);
  }
  if (layout.grouped) digits = grouped(std::move(digits));
  const std::string sign = negative ? "-" : layout.sign == '-' ? "" : std::string(1, layout.sign);
  return padded(sign + digits, layout, '>');
}

// A count of columns within a format; -1 if there is none.
int take_count(std::string_view& text) {
  int count = -1;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    count = std::max(count, 0) * 10 + (text[0] - '0');
    if (count > widest) fail("a format is wider than {}", widest);
    text.remove_prefix(1);
  }
  return count;
}

std::string cut(std::string text, int characters) {
  if (characters >= 0) text.resize(byte_of_character(text, static_cast<size_t>(characters)));
  return text;
}

// One conversion after its %.
class Percent {
public:
  Percent(const Value& format, const Value& values)
      : format_(*format.text()), markup_(format.is_markup()), values_(values) {
    const Sequence* sequence = values.sequence();
    if (sequence && sequence->is_tuple()) {
      items_ = sequence->items;
    } else {
      items_ = {values};
    }
  }

  std::string run() {
    std::string result;
    while (!format_.empty()) {
      const size_t percent = std::min(format_.find('%'), format_.size());
      result += format_.substr(0, percent);
      format_.remove_prefix(percent);
      if (format_.empty()) break;
      format_.remove_prefix(1);
      result += conversion();
    }
    const bool whole = values_.dict() || (values_.sequence() && !values_.sequence()->is_tuple());
    if (next_ < items_.size() && !whole && !named_)
      fail("not all arguments converted during string formatting");
    return result;
  }

private:
  const Value& next() {
    if (next_ >= items_.size()) fail("not enough arguments for format string");
    return items_[next_++];
  }

  const Value& named() {
    const size_t end = format_.find(')');
    if (!values_.dict()) fail("format requires a mapping");
    if (end == std::string::npos) fail("incomplete format key");
    const Value* value = values_.dict()->find(Value(format_.substr(1, end - 1)));
    if (!value) fail("the format's values have no key {}", repr_text(format_.substr(1, end - 1)));
    format_.remove_prefix(end + 1);
    named_ = true;
    return *value;
  }

  std::string conversion() {
    const Value* value = format_.starts_with('(') ? &named() : nullptr;
    Layout layout;
    for (; !format_.empty() && std::string_view("-+ 0#").find(format_[0]) != std::string::npos;
         format_.remove_prefix(1)) {
      if (format_[0] == '-') layout.align = '<';
      if (format_[0] == '0' && layout.align == '\0') layout.fill = "0", layout.align = '=';
      if (format_[0] == '+' || (format_[0] == ' ' && layout.sign != '+')) layout.sign = format_[0];
      if (format_[0] == '#') layout.alternate = true;
    }
    if (layout.align == '<') layout.fill = " ";
    layout.width = std::max(take_count(format_), 0);
    if (format_.starts_with('.')) {
      format_.remove_prefix(1);
      layout.precision = std::max(take_count(format_), 0);
    }
    if (format_.empty()) fail("incomplete format");
    layout.type = format_[0];
    format_.remove_prefix(1);
    if (layout.type == '%') return "%";
    return converted(value ? *value : next(), layout);
  }

  std::string converted(const Value& value, Layout layout) const {
    if (layout.type == 's' || layout.type == 'r') {
      layout.fill = " ";
      if (layout.align == '=') layout.align = '>';
      const Value shown = layout.type == 's' ? value : Value(repr(value));
      return padded(cut(str(markup_ ? escaped(shown) : shown), layout.precision), layout, '>');
    }
    if (layout.type == 'c' && value.text()) return padded(*value.text(), layout, '>');
    if (std::string_view("diuxXoeEfFgG").find(layout.type) == std::string::npos)
      fail("unsupported format character '{}'", layout.type);
    if (!value.number()) fail("%{} format: a number is required, not {}", layout.type, type_name(value));
    if (std::string_view("diu").find(layout.type) == std::string::npos) return number_text(value, layout);
    layout.type = 'd';
    layout.precision = -1;
    if (!value.real()) return number_text(value, layout);
    if (!(std::fabs(*value.real()) < 1e38)) fail("cannot convert {} to integer", write_float(*value.real()));
    return number_text(Value(Integer(std::trunc(*value.real()))), layout);
  }

  std::string_view format_;
  const bool markup_;
  const Value& values_;
  Items items_;
  size_t next_ = 0;
  bool named_ = false;
};

Layout read_layout(std::string_view text) {
  Layout layout;
  const std::string whole(text);
  const auto aligns = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t head = text.empty() ? 0 : first_code_point(text).length;
  if (text.size() > head && head > 0 && aligns(text[head])) {
    layout.fill = text.substr(0, head);
    layout.align = text[head];
    text.remove_prefix(head + 1);
  } else if (!text.empty() && aligns(text[0])) {
    layout.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' '))
    layout.sign = text[0], text.remove_prefix(1);
  if (text.starts_with('#')) layout.alternate = true, text.remove_prefix(1);
  if (text.starts_with('0') && layout.align == '\0') layout.fill = "0", layout.align = '=';
  layout.width = std::max(take_count(text), 0);
  if (text.starts_with(',')) layout.grouped = true, text.remove_prefix(1);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    layout.precision = take_count(text);
  }
  if (!text.empty()) layout.type = text[0], text.remove_prefix(1);
  if (!text.empty() || std::string_view("\0sdxXobeEfFgG%", 14).find(layout.type) == std::string::npos)
    fail("Invalid format specifier '{}'", whole);
  return layout;
}

std::string formatted(const Value& value, std::string_view specification) {
  if (specification.empty()) return str(value);
  const Layout layout = read_layout(specification);
  const bool number = value.number() && !(value.boolean() && layout.type == '\0');
  if (number && layout.type != 's') return number_text(value, layout);
  if (layout.type != '\0' && layout.type != 's')
    fail("Unknown format code '{}' for object of type '{}'", layout.type, type_name(value));
  return padded(cut(str(value), layout.precision), layout, '<');
}

// One field of a format, between its braces.
class Field {
public:
  Field(const Arguments& arguments, size_t& next) : arguments_(arguments), next_(next) {}

  std::string run(std::string_view field) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    char conversion = '\0';
    if (const size_t mark = name.find('!'); mark != std::string::npos) {
      conversion = mark + 1 < name.size() ? name[mark + 1] : '\0';
      name = name.substr(0, mark);
    }
    Value value = named(name);
    if (conversion == 'r') value = Value(repr(value));
    if (conversion == 's') value = Value(str(value));
    return formatted(value, field.substr(std::min(colon + 1, field.size())));
  }

private:
  Value named(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      const bool dot = name[0] == '.';
      const size_t stop = std::min(name.find_first_of(dot ? ".[" : "]", 1), name.size());
      const std::string_view part = name.substr(1, stop - 1);
      const std::optional<Integer> index = dot ? std::nullopt : read_integer(part, 10);
      value = dot ? attribute(value, part) : element(value, index ? Value(*index) : Value(part));
      name.remove_prefix(std::min(stop + (dot ? 0 : 1), name.size()));
    }
    return value;
  }

  Value argument(std::string_view name) {
    const std::optional<Integer> index = name.empty() ? Integer(next_++) : read_integer(name, 10);
    if (index) {
      if (*index < 0 || *index >= Integer(arguments_.positional.size()))
        fail("Replacement index {} out of range for positional args tuple", write_integer(*index));
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [given, value] : arguments_.named) {
      if (given == name) return value;
    }
    fail("format() was given no '{}'", name);
  }

  const Arguments& arguments_;
  size_t& next_;
};

} // namespace

std::string format_percent(const Value& format, const Value& values) {
  return Percent(format, values).run();
}

std::string format_braces(const Value& text, const Arguments& arguments) {
  std::string_view format = *text.text();
  std::string result;
  size_t next = 0;
  while (!format.empty()) {
    const size_t brace = std::min(format.find_first_of("{}"), format.size());
    result += format.substr(0, brace);
    format.remove_prefix(brace);
    if (format.empty()) break;
    if (format.starts_with("{{") || format.starts_with("}}")) {
      result += format[0];
      format.remove_prefix(2);
      continue;
    }
    const size_t end = format.find('}');
    if (format[0] == '}' || end == std::string::npos)
      fail("a single '{}' stands in a format string", format[0]);
    const std::string made = Field(arguments, next).run(format.substr(1, end - 1));
    charge_text(made.size());
    result += text.is_markup() ? *escaped(Value(made)).text() : made;
    format.remove_prefix(end + 1);
  }
  return result;
}

std::string round_to(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

} // namespace pumice::text::jinja
