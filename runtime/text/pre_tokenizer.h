#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/pieces.h"

namespace pumice::text {

// Cuts text into the pieces that tokens do not cross.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;

  // At most how many times longer the text may become; see Normalizer::growth.
  virtual double growth() const { return 1; }
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

enum class PrependScheme { always, first, never };

// The split GPT-2 came with.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Writes every byte as a character, after putting a space before a piece (`add_prefix_space`, where it has
// none) and cutting it by `split`, each if wanted.
PreTokenizerPtr make_byte_level(bool add_prefix_space, std::optional<Regex> split);
PreTokenizerPtr make_split(Regex pattern, SplitBehavior behavior, bool invert);
PreTokenizerPtr make_split(std::string delimiter, SplitBehavior behavior, bool invert);
PreTokenizerPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split);
PreTokenizerPtr make_digits(bool individual);
PreTokenizerPtr make_punctuation(SplitBehavior behavior);
PreTokenizerPtr make_whitespace();       // runs of word characters and runs of anything else but white space
PreTokenizerPtr make_whitespace_split(); // at white space only
PreTokenizerPtr make_bert_split();       // at white space, and around each punctuation mark
PreTokenizerPtr make_sequence(std::vector<PreTokenizerPtr> steps);

} // namespace pumice::text
