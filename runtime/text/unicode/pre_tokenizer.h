#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/pieces.h"

namespace pumice::text {

// Cuts text into pieces. No token reaches from one piece into another.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;

  // An upper limit of how many times longer the text can become; see Normalizer::growth.
  virtual double growth() const { return 1; }
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

enum class PrependScheme { always, first, never };

// The pattern that GPT-2 splits text with.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Puts a space before each piece that has none (if `add_prefix_space`), cuts the pieces by `split` (if
// given), and writes every byte as a character.
PreTokenizerPtr make_byte_level(bool add_prefix_space, std::optional<Regex> split);
PreTokenizerPtr make_split(Regex pattern, SplitBehavior behavior, bool invert);
PreTokenizerPtr make_split(std::string delimiter, SplitBehavior behavior, bool invert);
PreTokenizerPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split);
PreTokenizerPtr make_digits(bool individual);
PreTokenizerPtr make_punctuation(SplitBehavior behavior);
PreTokenizerPtr make_whitespace();       // runs of word characters, and runs of other non-spaces
PreTokenizerPtr make_whitespace_split(); // at white space only
PreTokenizerPtr make_bert_split();       // at white space, and around each punctuation mark
PreTokenizerPtr make_sequence(std::vector<PreTokenizerPtr> steps);

} // namespace pumice::text
