#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace pumice {

// The tokens of a text, as Tokenizer::encode() gives them without special tokens around, with their places.
std::vector<Tokenizer::PlacedToken> place_tokens(const TokenizerParts& parts, std::string_view text);

} // namespace pumice
