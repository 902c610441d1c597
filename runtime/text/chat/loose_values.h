#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pumice::text {

bool is_name_character(char c); // of a tool: a letter, a digit, or one of _ . -

// Reads values as models write them, from the beginning of a text: JSON, also with line ends and unknown
// escapes within strings; Python's literals; and Gemma's objects, whose keys have no quotes and whose strings
// stand between <|"|>. Whatever fails has read up to what is wrong: if that is the end of the text, more text
// may mend it.
class LooseReader {
public:
  explicit LooseReader(std::string_view text) : text_(text) {}
  using Value = std::optional<nlohmann::ordered_json>;

  Value value();
  // The arguments of a call as Python has them, after the opening parenthesis, up to and with the closing
  // one. Those without a name get the names of `properties`, an object, in their order.
  Value python_arguments(const nlohmann::ordered_json& properties);

  std::string word(); // a name; empty if there is none
  // Skips white space, and `expected` after it if it is there.
  bool skip(std::string_view expected);
  std::string_view rest() const { return text_; }
  bool ended(); // but for white space

private:
  Value string();
  Value word_or_number();
  Value made_by(std::string_view type);
  Value items(std::string_view end);
  Value object_or_set();
  bool begins_string() const;
  std::optional<std::string> text_until(std::string_view quote, bool raw);
  bool escape(std::string& out);
  bool hexadecimal(size_t digits, char32_t& value);

  std::string_view text_; // that is left
  bool python_ = false;   // its escapes and not JSON's
  size_t depth_ = 0;
};

} // namespace pumice::text
