#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pumice::text {

// The bytes; nothing if the text is not base64 (of the usual alphabet; padding may be left out).
std::optional<std::string> decode_base64(std::string_view text);

} // namespace pumice::text
