#include "text/formats/data_url.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "text/formats/base64.h"

namespace pumice::text {

Result<std::string> parse_data_url(const nlohmann::ordered_json& url) {
  const auto bad = [](const char* what) { return Error{Code::invalid_argument, what}; };
  if (!url.is_string()) {
    return bad("expected a string: only data URLs are read, as in data:image/png;base64,...: nothing is "
               "fetched");
  }
  const std::string_view text = url.get_ref<const std::string&>();
  const size_t comma = text.find(',');
  const std::string head = lower_case(text.substr(0, std::min<size_t>(comma, 100)));
  if (comma == std::string_view::npos || !head.starts_with("data:") || !head.ends_with(";base64"))
    return bad("only data URLs are read, as in data:image/png;base64,...: nothing is fetched");
  std::optional<std::string> bytes = decode_base64(text.substr(comma + 1));
  if (!bytes || bytes->empty()) return bad("expected base64 of a file's bytes");
  return *std::move(bytes);
}

} // namespace pumice::text
