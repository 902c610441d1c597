#pragma once

#include <cstdint>
#include <string>

namespace pumice::command {

// "1 token", "2 tokens".
inline std::string counted(uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

} // namespace pumice::command
