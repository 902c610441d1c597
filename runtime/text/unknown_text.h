#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace pumice::text {

// What a model does with a character its vocabulary does not have: the bytes of it, if it falls back to bytes
// and has them all; otherwise the unknown token, once for a run of them if they are fused; otherwise nothing.
class UnknownText {
public:
  UnknownText() = default;
  UnknownText(const Vocabulary& vocabulary, bool byte_fallback, std::optional<uint32_t> unknown, bool fuse);

  // Appends the ids of a character, or of several that are unknown together. `after_unknown`: what was before
  // became the unknown token. Returns whether this did.
  bool append(std::string_view escaped, bool after_unknown, std::vector<uint32_t>& ids) const;

private:
  bool append_bytes(std::string_view escaped, std::vector<uint32_t>& ids) const;

  std::array<std::optional<uint32_t>, 256> bytes_;
  std::optional<uint32_t> unknown_;
  bool byte_fallback_ = false;
  bool fuse_ = false;
};

} // namespace pumice::text
