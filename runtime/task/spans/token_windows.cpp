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

} // namespace pumice
