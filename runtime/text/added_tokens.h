#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/normalizer.h"

namespace pumice::text {

// A token that is searched for in the text before the model cuts the rest: a special token, or one that was
// added to the vocabulary later.
struct AddedToken {
  std::string content; // escaped UTF-8
  uint32_t id = 0;
  bool special = false;
  bool left_strip = false;  // includes the white space before it
  bool right_strip = false; // includes the white space after it
  bool single_word = false; // not found beside a letter or digit
  bool normalized = false;  // searched for after normalization, itself normalized
};

// Finds added tokens in a text: the leftmost first, and the longest if several begin at one place.
class AddedTokens {
public:
  struct Segment {
    Span span;
    std::optional<uint32_t> id; // of the token; none for plain text
  };

  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  // Cuts text at the added tokens, or at those alone that are not special: cut_raw() for text before
  // normalization, cut_normalized() for text after it.
  std::vector<Segment> cut_raw(std::string_view escaped, bool special) const {
    return cut(escaped, special ? raw_ : raw_words_);
  }
  std::vector<Segment> cut_normalized(std::string_view escaped, bool special) const {
    return cut(escaped, special ? normalized_ : normalized_words_);
  }
  // For each special token that the text spells, the position after its first character.
  std::vector<size_t> cuts_in_special(std::string_view escaped) const;

  bool is_special(uint32_t id) const;
  std::optional<uint32_t> find(std::string_view content) const;

private:
  // Sorted spellings, so that spellings with the same beginning are neighbours.
  struct Dictionary {
    struct Spelling {
      std::string text;
      uint32_t token;
    };
    std::vector<Spelling> spellings;
    std::array<std::pair<uint32_t, uint32_t>, 256> first_byte{}; // by first byte: a range of spellings

    void finish();
    const Spelling* longest_at(std::string_view text) const;
  };

  std::vector<Segment> cut(std::string_view escaped, const Dictionary& dictionary) const;

  std::vector<AddedToken> tokens_;
  Dictionary raw_, normalized_;
  Dictionary raw_words_, normalized_words_; // without special tokens
  std::vector<uint32_t> special_ids_;       // sorted
};

} // namespace pumice::text
