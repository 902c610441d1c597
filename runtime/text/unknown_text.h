#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace pumice::text {

// How a model encodes a character that its vocabulary lacks: as the tokens of its bytes, if byte fallback is
// on and the vocabulary has them all; otherwise as the unknown token, once for a whole run if `fuse` is set;
// otherwise as nothing.
class UnknownText {
public:
  UnknownText() = default;
  UnknownText(const Vocabulary& vocabulary, bool byte_fallback, std::optional<uint32_t> unknown, bool fuse);

  // Appends the ids of an unknown character or of a run of them. `after_unknown`: the text before became the
  // unknown token. Returns whether this text did.
  bool append(std::string_view escaped, bool after_unknown, std::vector<uint32_t>& ids) const;

private:
  bool append_bytes(std::string_view escaped, std::vector<uint32_t>& ids) const;

  std::array<std::optional<uint32_t>, 256> bytes_;
  std::optional<uint32_t> unknown_;
  bool byte_fallback_ = false;
  bool fuse_ = false;
};

} // namespace pumice::text
