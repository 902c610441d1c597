#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pumice::text {

bool is_name_character(char c); // of a tool: a letter, a digit, or one of _ . -

// Reads calls with values that are like JSON: Python's, with True, None and strings in either quotes, or
// Gemma's, whose keys have no quotes and whose strings stand between <|"|>.
class LooseReader {
public:
  explicit LooseReader(std::string_view text) : text_(text) {}

  struct Call {
    std::string name;
    nlohmann::ordered_json arguments;
  };
  // f(key=value, ...), or call:f{key:value, ...}.
  std::optional<Call> call();
  // Skips white space, and this character after it if it is there.
  bool skip(char c);
  bool ended(); // but for white space

private:
  using Value = std::optional<nlohmann::ordered_json>;
  bool skip(std::string_view expected);
  std::string word();
  Value value();
  Value word_or_number();
  Value list();
  Value members(char separator, char end);
  std::optional<std::string> string_if_any();
  std::optional<std::string> escaped_string(char quote);

  std::string_view text_; // that is left
  size_t depth_ = 0;
};

} // namespace pumice::text
