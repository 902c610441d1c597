#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pumice {

// A vocabulary without merges: byte-pair tokens in the order in which they were learned.
struct RankedTokens {
  std::vector<std::string_view> words; // the bytes of each, by id; views of the file
  std::vector<std::string> special;    // the names of the tokens with the next ids
};

} // namespace pumice
