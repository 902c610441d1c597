#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace pumice::command {

// "1 token", "2 tokens".
inline std::string counted(uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

// ", 12.3 tokens/s"; nothing where there is nothing to divide.
inline std::string rate_text(uint64_t tokens, double seconds) {
  return tokens && seconds > 0 ? fmt::format(", {:.1f} tokens/s", static_cast<double>(tokens) / seconds) : "";
}

} // namespace pumice::command
