#pragma once

#include "base/result.h"

#include <cstddef>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pumice {

enum class DuplicateKeys {
  keep_last, // as Python's reader does
  refuse,    // where a name must mean one thing, as in a safetensors header
};

// Parses JSON that came from `file`. Errors are invalid_file and name the file and the byte where reading
// stopped; nesting deeper than 128 is refused, so that nothing that walks the value can run out of stack.
Result<nlohmann::json> parse_json(std::span<const std::byte> text, std::string_view file,
                                  DuplicateKeys duplicates = DuplicateKeys::keep_last);

// The same, and anything but an object is an error.
Result<nlohmann::json> parse_json_object(std::span<const std::byte> text, std::string_view file,
                                         DuplicateKeys duplicates = DuplicateKeys::keep_last);

// A value in a few words for a message: `"text"`, `3`, `an array of 4`. Short whatever the value.
std::string describe(const nlohmann::json& value);

} // namespace pumice
