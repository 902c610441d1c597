#include "io/bytes.h"

#include <fmt/format.h>

namespace pumice {

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  if (text.size() > limit) out += "...";
  return out;
}

std::string in_quotes(std::string_view text, size_t limit) {
  return "'" + printable(text, limit) + "'";
}

std::string shape_text(std::span<const uint64_t> shape) {
  constexpr size_t max_shown = 16; // a header may claim thousands
  std::string out = "[";
  for (size_t i = 0; i < shape.size() && i < max_shown; ++i)
    out += fmt::format("{}{}", i ? ", " : "", shape[i]);
  if (shape.size() > max_shown) out += ", ...";
  return out + "]";
}

} // namespace pumice
