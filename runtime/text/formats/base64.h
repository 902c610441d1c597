#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pumice::text {

// Decodes base64 with the standard alphabet. Padding may be missing. Returns nothing if the text is not
// base64.
std::optional<std::string> decode_base64(std::string_view text);
// The same the other way, with padding.
std::string encode_base64(std::string_view bytes);

} // namespace pumice::text
