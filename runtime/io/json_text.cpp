#include "io/json_text.h"

#include "io/bytes.h"

#include <set>
#include <vector>

#include <fmt/format.h>

namespace pumice {
namespace {

using nlohmann::json;

constexpr size_t max_json_depth = 128;

Error json_error(std::string_view file, std::string_view what) {
  return {Code::invalid_file, fmt::format("{}: {}", file, what)};
}

// The position of the first bracket beyond the allowed depth, or text.size() if there is none. The parser has
// no limit of its own, and copying or printing a deeply nested value could overflow the stack.
size_t find_too_deep(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_json_depth) return i;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return text.size();
}

// Records the keys of every open object and finds the first duplicate.
class DuplicateFinder {
public:
  void see(json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end && !open_.empty()) open_.pop_back();
    if (event != json::parse_event_t::key || open_.empty() || !duplicate_.empty()) return;
    const auto& key = value.get_ref<const std::string&>();
    if (!open_.back().insert(key).second) duplicate_ = in_quotes(key);
  }
  const std::string& duplicate() const { return duplicate_; } // quoted; empty if there is none

private:
  std::vector<std::set<std::string>> open_;
  std::string duplicate_;
};

// "... parse error at line 1, column 2: syntax error ..." without the library's own prefix.
std::string reason(const json::exception& error) {
  std::string_view text = error.what();
  if (const size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  return printable(text, 200);
}

// What `read` makes of a text; it may throw what the library throws.
template <class Json, class Read>
Result<Json> parse(std::string_view text, std::string_view file, const Read& read) {
  if (const size_t at = find_too_deep(text); at != text.size())
    return json_error(file, fmt::format("JSON nested deeper than {} at byte {}", max_json_depth, at));
  try {
    return read();
  } catch (const json::parse_error& error) {
    return json_error(
        file, fmt::format("invalid JSON at byte {} of {}: {}", error.byte, text.size(), reason(error)));
  } catch (const json::exception& error) { // such as a number too large for a double; it has no position
    return json_error(file, fmt::format("invalid JSON: {}", reason(error)));
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, fmt::format("{}: not enough memory for its JSON", file)};
  }
}

} // namespace

Result<json> parse_json(std::span<const std::byte> bytes, std::string_view file, DuplicateKeys duplicates) {
  const std::string_view text = as_text(bytes);
  DuplicateFinder finder;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    finder.see(event, value);
    return true;
  };
  PUMICE_TRY(json value, parse<json>(text, file, [&] {
               return duplicates == DuplicateKeys::refuse ? json::parse(text.begin(), text.end(), watch)
                                                          : json::parse(text.begin(), text.end());
             }));
  if (!finder.duplicate().empty())
    return json_error(file, fmt::format("the JSON key {} occurs twice in one object", finder.duplicate()));
  return value;
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view file) {
  return parse<nlohmann::ordered_json>(
      text, file, [&] { return nlohmann::ordered_json::parse(text.begin(), text.end()); });
}

Result<json> parse_json_object(std::span<const std::byte> bytes, std::string_view file,
                               DuplicateKeys duplicates) {
  PUMICE_TRY(json value, parse_json(bytes, file, duplicates));
  if (!value.is_object())
    return json_error(file, fmt::format("expected a JSON object, found {}", describe(value)));
  return value;
}

std::string describe(const json& value) {
  switch (value.type()) {
  case json::value_t::object:
    return fmt::format("an object of {}", value.size());
  case json::value_t::array:
    return fmt::format("an array of {}", value.size());
  case json::value_t::string:
    return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>(), 60));
  case json::value_t::number_float:
    return fmt::format("{}", value.get<double>()); // JSON itself has no NaN
  default:
    return value.dump();
  }
}

} // namespace pumice
