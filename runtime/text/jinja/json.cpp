#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

constexpr int deepest_json = 300;

Value convert(const nlohmann::ordered_json& json, int depth) {
  if (depth > deepest_json) fail("the variables nest more than {} deep", deepest_json);
  switch (json.type()) {
  case nlohmann::ordered_json::value_t::null:
    return {};
  case nlohmann::ordered_json::value_t::boolean:
    return Value(json.get<bool>());
  case nlohmann::ordered_json::value_t::number_integer:
    return Value(Integer(json.get<int64_t>()));
  case nlohmann::ordered_json::value_t::number_unsigned:
    return Value(Integer(json.get<uint64_t>()));
  case nlohmann::ordered_json::value_t::number_float:
    return Value(json.get<double>());
  case nlohmann::ordered_json::value_t::string: {
    const std::string& text = json.get_ref<const std::string&>();
    if (!is_valid_utf8(text)) fail("a string of the variables is not UTF-8");
    return Value(text);
  }
  case nlohmann::ordered_json::value_t::array: {
    Items items;
    for (const nlohmann::ordered_json& item : json) items.push_back(convert(item, depth + 1));
    return make_list(std::move(items));
  }
  case nlohmann::ordered_json::value_t::object: {
    Dict dict;
    for (const auto& [key, value] : json.items()) dict.set(Value(key), convert(value, depth + 1));
    return make_dict(std::move(dict));
  }
  default:
    fail("the variables hold what is not JSON");
  }
}

class Writer {
public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    charge(1);
    if (value.is_none()) {
      result_ += "null";
    } else if (const bool* boolean = value.boolean()) {
      result_ += *boolean ? "true" : "false";
    } else if (const std::optional<Integer> integer = value.integer()) {
      result_ += write_integer(*integer);
    } else if (const double* real = value.real()) {
      result_ += number(*real);
    } else if (const std::string* text = value.text()) {
      string(*text);
    } else if (const Dict* dict = value.dict()) {
      object(*dict);
    } else if (const Sequence* sequence = value.sequence();
               sequence && (sequence->is_tuple() || sequence->kind == Sequence::Kind::list)) {
      array(sequence->items);
    } else {
      fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  std::string take() { return std::move(result_); }

private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return write_float(value);
  }

  void newline() {
    if (!style_.indent) return;
    charge_text(style_.indent->size() * static_cast<size_t>(level_));
    result_ += '\n';
    for (int i = 0; i < level_; ++i) result_ += *style_.indent;
  }

  void array(const Items& items) {
    if (items.empty()) {
      result_ += "[]";
      return;
    }
    result_ += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) result_ += style_.item_separator;
      newline();
      write(items[i]);
    }
    --level_;
    newline();
    result_ += ']';
  }

  void object(const Dict& dict) {
    if (dict.size() == 0) {
      result_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* left, const auto* right) { return less(left->first, right->first); });
    }
    result_ += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) result_ += style_.item_separator;
      newline();
      string(key(entries[i]->first));
      result_ += style_.key_separator;
      write(entries[i]->second);
    }
    --level_;
    newline();
    result_ += '}';
  }

  static std::string key(const Value& value) {
    if (const std::string* text = value.text()) return *text;
    if (value.is_none()) return "null";
    if (const bool* boolean = value.boolean()) return *boolean ? "true" : "false";
    if (const std::optional<Integer> integer = value.integer()) return write_integer(*integer);
    if (const double* real = value.real()) return number(*real);
    fail("keys must be str, int, float, bool or None, not {}", type_name(value));
  }

  void string(std::string_view text) {
    charge_text(text.size());
    result_ += '"';
    while (!text.empty()) {
      const CodePoint point = first_code_point(text);
      character(point.value, text.substr(0, point.length));
      text.remove_prefix(point.length);
    }
    result_ += '"';
  }

  void character(char32_t c, std::string_view bytes) {
    static constexpr std::string_view escaped = "\"\\\n\r\t\b\f";
    static constexpr std::string_view letters = "\"\\nrtbf";
    if (const size_t at = c < 0x80 ? escaped.find(static_cast<char>(c)) : std::string::npos;
        at != std::string::npos) {
      result_ += '\\';
      result_ += letters[at];
    } else if (c < 0x20 || (style_.ensure_ascii && c > 0x7E && c < 0x10000)) {
      // Python leaves DEL as it is.
      result_ += c == 0x7F ? "\x7F" : fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (style_.ensure_ascii && c >= 0x10000) {
      const auto rest = static_cast<uint32_t>(c) - 0x10000;
      result_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      result_ += bytes;
    }
  }

  const JsonStyle& style_;
  std::string result_;
  int level_ = 0;
};

} // namespace

Value from_json(const nlohmann::ordered_json& json) {
  return convert(json, 0);
}

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value);
  return writer.take();
}

} // namespace pumice::text::jinja
