#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice::text {

// The bytes of a URL that has them in itself, as "data:image/png;base64,..." has. An error says what is wrong
// with it, and not where it is.
Result<std::string> parse_data_url(const nlohmann::ordered_json& url);

} // namespace pumice::text
