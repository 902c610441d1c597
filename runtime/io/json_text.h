#pragma once

#include "base/result.h"

#include <cstddef>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pumice {

enum class DuplicateKeys {
  keep_last, // as Python's reader does
  refuse,    // for files where each name must be unique, such as safetensors headers
};

// Parses JSON that came from `file`. Errors are invalid_file and name the file and the byte where parsing
// stopped. Nesting deeper than 128 is refused, so that recursion over the value cannot overflow the stack.
Result<nlohmann::json> parse_json(std::span<const std::byte> text, std::string_view file,
                                  DuplicateKeys duplicates = DuplicateKeys::keep_last);

// The same for a JSON object; any other value is an error.
Result<nlohmann::json> parse_json_object(std::span<const std::byte> text, std::string_view file,
                                         DuplicateKeys duplicates = DuplicateKeys::keep_last);

// Any value, whose objects keep the order of their keys, as templates write them.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view file);

// A short description of a value for messages: `"text"`, `3`, `an array of 4`. Long text is cut.
std::string describe(const nlohmann::json& value);

} // namespace pumice
