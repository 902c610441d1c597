#include "task/spans/token_windows.h"

#include <algorithm>

namespace pumice {

std::vector<TokenWindow> token_windows(size_t tokens, size_t room, size_t overlap) {
  std::vector<TokenWindow> windows;
  for (size_t begin = 0; begin < tokens; begin += room - overlap) {
    const size_t end = std::min(begin + room, tokens);
    TokenWindow window{begin, end, begin, end};
    if (!windows.empty()) window.first = windows.back().last = begin + (windows.back().end - begin) / 2;
    windows.push_back(window);
    if (end == tokens) break;
  }
  return windows;
}

Result<std::vector<EncoderInput>> read_windows(InputRunner& runner,
                                               std::span<const Tokenizer::PlacedToken> tokens,
                                               std::span<const TokenWindow> windows, const Around& around,
                                               const std::string& name) {
  std::vector<uint32_t> ids;
  for (const Tokenizer::PlacedToken& token : tokens) ids.push_back(token.id);
  std::vector<EncoderInput> inputs;
  for (const TokenWindow& window : windows) {
    const auto part = std::span(ids).subspan(window.begin, window.end - window.begin);
    PUMICE_TRY(EncoderInput input, runner.read(around(part), name));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

} // namespace pumice
