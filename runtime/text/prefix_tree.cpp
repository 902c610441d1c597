#include "text/prefix_tree.h"

#include <algorithm>

namespace pumice::text {

PrefixTree::PrefixTree(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  // Breadth first: each node's children are appended to the list and get their own children later.
  struct Range {
    size_t begin, end, depth; // the entries below a node, which share its first `depth` bytes
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t at = 0; at < nodes_.size(); ++at) {
    auto [begin, end, depth] = ranges[at];
    if (begin < end && entries[begin].text.size() == depth) nodes_[at].id = entries[begin++].id;
    nodes_[at].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].text[depth];
      size_t next = begin + 1;
      while (next < end && entries[next].text[depth] == byte) ++next;
      nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[at].children;
      begin = next;
    }
  }
}

const PrefixTree::Node* PrefixTree::child(const Node& node, uint8_t byte) const {
  const auto begin = nodes_.begin() + node.first_child, end = begin + node.children;
  const auto found = std::partition_point(begin, end, [byte](const Node& n) { return n.byte < byte; });
  return found != end && found->byte == byte ? &*found : nullptr;
}

} // namespace pumice::text
