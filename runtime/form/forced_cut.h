#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pumice::form {

// Where the next bytes of a text are certain, a model would mostly spell them in the tokens that it was
// trained on. So only the token may follow that the tokenizer cuts them into, unless one that goes on after
// those bytes may take its place.
struct ForcedCut {
  std::optional<uint32_t> first; // token; none: all that fit may follow
  // What tokens that begin with some of its bytes have after those that are certain: if one of these may
  // follow there, all that fit may follow here.
  std::vector<std::string_view> beyond = {};
};

// More bytes than these are not looked at.
inline constexpr size_t most_cut_bytes = 48;

} // namespace pumice::form
