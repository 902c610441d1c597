#include "form/token_tree.h"

#include <algorithm>

namespace pumice::form {

TokenTree::TokenTree(std::vector<std::pair<std::string_view, uint32_t>> sorted) {
  std::ranges::sort(sorted);
  std::vector<uint32_t> path; // the nodes of the last token's bytes
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes[path.back()].after = static_cast<uint32_t>(nodes.size());
  };
  for (const auto& [bytes, token] : sorted) {
    const auto same = static_cast<size_t>(std::ranges::mismatch(last, bytes).in1 - last.begin());
    close(same);
    for (size_t i = same; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({0, static_cast<uint32_t>(tokens.size()), 0, static_cast<uint16_t>(i + 1), 0,
                       static_cast<uint8_t>(bytes[i])});
    }
    deepest = std::max(deepest, static_cast<uint32_t>(path.size()));
    tokens.push_back(token);
    ++nodes[path.back()].token_count;
    last = bytes;
  }
  close(0);
  std::vector<uint16_t> most(deepest + 2); // of the nodes that were looked at last, by depth
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    node.characters_below = std::exchange(most[node.depth + 1U], uint16_t{0});
    const bool begins = (node.byte & 0xC0) != 0x80;
    most[node.depth] = std::max(most[node.depth], static_cast<uint16_t>(node.characters_below + begins));
  }
}

std::span<const uint32_t> TokenTree::below(size_t node) const {
  const Node& at = nodes[node];
  const size_t begin = at.first_token + at.token_count;
  const size_t end = at.after < nodes.size() ? nodes[at.after].first_token : tokens.size();
  return std::span(tokens).subspan(begin, end - begin);
}

} // namespace pumice::form
