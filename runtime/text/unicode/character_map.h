#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/unicode/normalizer.h"

namespace pumice::text {

// SentencePiece's compiled character map (precompiled_charsmap): strings and their replacements. Its layout:
// the trie's length in bytes, a double-array trie, and the replacements, each ended by a NUL.
class CharacterMap {
public:
  // Parses a map and checks that no walk through the trie can leave it. `where` names the map in errors.
  static Result<CharacterMap> parse(std::string_view bytes, const std::string& where);

  struct Match {
    size_t length; // of the replaced string, in bytes
    std::string_view with;
  };
  // The shortest or the longest string of the map with which the text begins.
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }

  size_t longest_replacement() const { return longest_replacement_; }

private:
  std::optional<Match> find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  size_t longest_replacement_ = 0;
};

// As Hugging Face's tokenizers apply the map: a grapheme cluster of up to 5 bytes is replaced by the
// replacement of the shortest string with which it begins. If there is none, each of its characters is looked
// up in the same way.
NormalizerPtr make_grapheme_map(CharacterMap map);

// As SentencePiece applies it: from left to right, each time the longest string of the map.
NormalizerPtr make_longest_map(CharacterMap map);

} // namespace pumice::text
