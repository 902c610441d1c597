#include "text/chat/loose_values.h"

#include <algorithm>

namespace pumice::text {

namespace {

constexpr size_t most_levels = 64; // of lists and objects within each other

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

} // namespace

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

bool LooseReader::skip(std::string_view expected) {
  text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
  if (!text_.starts_with(expected)) return false;
  text_.remove_prefix(expected.size());
  return true;
}

bool LooseReader::skip(char c) {
  return skip(std::string_view(&c, 1));
}

bool LooseReader::ended() {
  skip(std::string_view());
  return text_.empty();
}

std::string LooseReader::word() {
  skip(std::string_view());
  const auto end = std::find_if_not(text_.begin(), text_.end(), is_name_character);
  std::string word(text_.begin(), end);
  text_.remove_prefix(word.size());
  return word;
}

std::optional<LooseReader::Call> LooseReader::call() {
  const bool gemma = skip("call:");
  Call call{word(), {}};
  if (call.name.empty() || !skip(gemma ? '{' : '(')) return std::nullopt;
  Value arguments = gemma ? members(':', '}') : members('=', ')');
  if (!arguments) return std::nullopt;
  call.arguments = *std::move(arguments);
  return call;
}

LooseReader::Value LooseReader::members(char separator, char end) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  while (!skip(end)) {
    std::optional<std::string> key = string_if_any();
    if (!key) key = word();
    if (key->empty() || !skip(separator)) return std::nullopt;
    Value each = value();
    if (!each) return std::nullopt;
    object[*key] = *std::move(each);
    if (skip(',')) continue;
    if (!skip(end)) return std::nullopt;
    break;
  }
  return object;
}

LooseReader::Value LooseReader::list() {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  while (!skip(']')) {
    Value each = value();
    if (!each) return std::nullopt;
    items.push_back(*std::move(each));
    if (skip(',')) continue;
    if (!skip(']')) return std::nullopt;
    break;
  }
  return items;
}

LooseReader::Value LooseReader::value() {
  skip(std::string_view());
  if (text_.starts_with('"') || text_.starts_with('\'') || text_.starts_with("<|\"|>")) {
    std::optional<std::string> string = string_if_any();
    if (!string) return std::nullopt;
    return *std::move(string);
  }
  if (!text_.starts_with('[') && !text_.starts_with('{')) return word_or_number();
  if (depth_ == most_levels) return std::nullopt;
  ++depth_;
  Value nested = skip('[') ? list() : (skip('{'), members(':', '}'));
  --depth_;
  return nested;
}

LooseReader::Value LooseReader::word_or_number() {
  const bool plus = skip('+');
  const std::string given = word();
  // "1.5e+3": the word ends before its sign.
  std::string number = given;
  if ((number.ends_with('e') || number.ends_with('E')) && text_.starts_with('+') && is_digit(number[0])) {
    text_.remove_prefix(1);
    number += word();
  }
  if (plus || (!number.empty() && (is_digit(number[0]) || number[0] == '-'))) {
    nlohmann::ordered_json value = nlohmann::ordered_json::parse(number, nullptr, false);
    if (!value.is_number()) return std::nullopt;
    return value;
  }
  if (given == "true" || given == "True") return true;
  if (given == "false" || given == "False") return false;
  if (given == "null" || given == "None") return nlohmann::ordered_json();
  return std::nullopt;
}

std::optional<std::string> LooseReader::string_if_any() {
  constexpr std::string_view mark = "<|\"|>";
  if (skip(mark)) {
    const size_t end = text_.find(mark);
    if (end == std::string_view::npos) return std::nullopt;
    std::string string(text_.substr(0, end));
    text_.remove_prefix(end + mark.size());
    return string;
  }
  for (const char quote : {'"', '\''}) {
    if (skip(quote)) return escaped_string(quote);
  }
  return std::nullopt;
}

std::optional<std::string> LooseReader::escaped_string(char quote) {
  std::string inner; // as JSON spells it
  for (size_t i = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == quote) {
      text_.remove_prefix(i + 1);
      const nlohmann::ordered_json read = nlohmann::ordered_json::parse('"' + inner + '"', nullptr, false);
      if (!read.is_string()) return std::nullopt;
      return read.get<std::string>();
    }
    if (c == '\\' && i + 1 < text_.size()) {
      const char next = text_[++i];
      if (next == '\'') {
        inner += next;
      } else {
        (inner += c) += next;
      }
    } else if (c == '"') {
      inner += "\\\"";
    } else if (c == '\n') {
      inner += "\\n";
    } else if (c == '\t') {
      inner += "\\t";
    } else {
      inner += c;
    }
  }
  return std::nullopt;
}

} // namespace pumice::text
