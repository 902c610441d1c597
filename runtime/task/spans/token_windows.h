#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "task/input_runner.h"
#include "text/tokenizer.h"

namespace pumice {

// A part of a text's tokens that the model reads at a time. Of those that it shares with its neighbours, the
// ones from `first` up to `last` are nearer to its middle than to theirs.
struct TokenWindow {
  size_t begin = 0, end = 0;
  size_t first = 0, last = 0;
};

// Windows of at most `room` tokens (at least 1), of which each shares `overlap` with the one before, less
// than it holds. The last one ends where the text does. None for a text without tokens.
std::vector<TokenWindow> token_windows(size_t tokens, size_t room, size_t overlap);

// What the model reads of each window. `around`: a window's tokens with those that stand around them.
using Around = std::function<Tokenizer::Encoding(std::span<const uint32_t>)>;
Result<std::vector<EncoderInput>> read_windows(InputRunner& runner,
                                               std::span<const Tokenizer::PlacedToken> tokens,
                                               std::span<const TokenWindow> windows, const Around& around,
                                               const std::string& name);

} // namespace pumice
