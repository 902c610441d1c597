#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"

namespace pumice::text {

// A token that is looked for in the text before the model sees any of it: a special one, or one of the
// user's.
struct AddedToken {
  std::string content; // escaped UTF-8
  uint32_t id = 0;
  bool special = false;
  bool left_strip = false;  // takes the white space before it
  bool right_strip = false; // and after it
  bool single_word = false; // not where it touches a letter or digit
  bool normalized = false;  // looked for after normalization, itself normalized
};

// Finds added tokens, the leftmost first and the longest of those that begin at one place.
class AddedTokens {
public:
  struct Part {
    Span span;
    std::optional<uint32_t> id; // none: plain text
  };

  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  // Cuts text at the tokens that are looked for before it is normalized, or at those looked for afterwards.
  std::vector<Part> cut_raw(std::string_view escaped) const { return cut(escaped, raw_); }
  std::vector<Part> cut_normalized(std::string_view escaped) const { return cut(escaped, normalized_); }

  bool is_special(uint32_t id) const;
  std::optional<uint32_t> find(std::string_view content) const;

private:
  // Spellings in order, so that those with a common beginning are neighbours.
  struct Dictionary {
    struct Spelling {
      std::string text;
      uint32_t token;
    };
    std::vector<Spelling> spellings;
    std::array<std::pair<uint32_t, uint32_t>, 256> first_byte{}; // which of them begin with a byte

    void finish();
    const Spelling* longest_at(std::string_view text) const;
  };

  std::vector<Part> cut(std::string_view escaped, const Dictionary& dictionary) const;

  std::vector<AddedToken> tokens_;
  Dictionary raw_, normalized_;
  std::vector<uint32_t> special_ids_; // in order
};

} // namespace pumice::text
