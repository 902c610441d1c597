#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

Value from_json(const nlohmann::ordered_json& json);

struct JsonStyle { // as the parameters of Python's json.dumps
  bool ensure_ascii = false;
  std::optional<std::string> indent; // one level's; nothing for one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style);

} // namespace pumice::text::jinja
