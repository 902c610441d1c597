#include "io/json_text.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/bytes.h"

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

// Makes a value as the library's own parser does, but for objects: before each member that one looks through
// all that came before, so that a megabyte of them takes a minute.
class OrderedReader {
  using Json = nlohmann::ordered_json;

public:
  Json result;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; } // JSON has none
  bool start_object(size_t) { return add(Json::object(), true); }
  bool start_array(size_t) { return add(Json::array(), true); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() {
    keep_last(open_.back()->get_ref<Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  template <class Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    throw error;
  }

private:
  bool add(Json value, bool opens = false) {
    Json* place = &result;
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back()->is_array()) {
      auto& list = open_.back()->get_ref<Json::array_t&>();
      list.push_back(std::move(value));
      place = &list.back();
    } else {
      auto& members = open_.back()->get_ref<Json::object_t&>();
      members.emplace_back(std::move(key_), std::move(value));
      place = &members.back().second;
    }
    if (opens) open_.push_back(place);
    return true;
  }
  // Of members with the same name the last one's value, in the first one's place.
  static void keep_last(Json::object_t& object) {
    std::vector<Json::object_t::value_type>& members = object; // an index of the object would be a name
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto name = [&](size_t i) -> const std::string& { return members[i].first; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
    std::vector<bool> gone(members.size());
    bool any = false;
    for (size_t i = 1, first = 0; i < order.size(); ++i) {
      if (name(order[i]) != name(order[first])) {
        first = i;
        continue;
      }
      members[order[first]].second = std::move(members[order[i]].second);
      gone[order[i]] = any = true;
    }
    if (!any) return;
    Json::object_t kept;
    kept.reserve(members.size()); // growing copies members
    for (size_t i = 0; i < members.size(); ++i)
      if (!gone[i]) kept.emplace_back(std::move(members[i]));
    object.swap(kept);
  }

  std::vector<Json*> open_;
  std::string key_;
};

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
  return parse<nlohmann::ordered_json>(text, file, [&] {
    OrderedReader reader;
    nlohmann::ordered_json::sax_parse(text.begin(), text.end(), &reader);
    return std::move(reader.result);
  });
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
