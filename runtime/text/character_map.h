#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"

namespace pumice::text {

// SentencePiece's compiled character map (precompiled_charsmap): strings and what they become. It is a length
// in bytes, a double-array trie of so many, and the replacements, each ended by a NUL.
class CharacterMap {
public:
  // Checks that no walk through the trie can leave it. `where` is what an error calls the map.
  static Result<CharacterMap> parse(std::string_view bytes, const std::string& where);

  struct Match {
    size_t length; // of what is replaced
    std::string_view with;
  };
  // The shortest or the longest string of the map that the text begins with.
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }

  size_t longest_replacement() const { return longest_replacement_; }

private:
  std::optional<Match> find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  size_t longest_replacement_ = 0;
};

// As Hugging Face's tokenizers use the map: a grapheme cluster of up to 5 bytes becomes what the shortest
// string that it begins with becomes; failing that, each of its characters does so.
NormalizerPtr make_grapheme_map(CharacterMap map);

// As SentencePiece uses it: from left to right, each time the longest string of the map.
NormalizerPtr make_longest_map(CharacterMap map);

} // namespace pumice::text
