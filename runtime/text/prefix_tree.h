#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pumice::text {

// A trie of strings. It finds all strings with which a text begins in one walk.
class PrefixTree {
public:
  struct Entry {
    std::string_view text; // not empty, unique; read only by the constructor
    uint32_t id;
  };

  PrefixTree() = default;
  explicit PrefixTree(std::vector<Entry> entries);

  // Calls visit(length, id) for every entry with which `text` begins, the shortest first.
  template <class Visit>
  void visit_prefixes(std::string_view text, const Visit& visit) const {
    const Node* node = nodes_.empty() ? nullptr : &nodes_.front();
    for (size_t length = 1; node && length <= text.size(); ++length) {
      node = child(*node, static_cast<unsigned char>(text[length - 1]));
      if (node && node->id != kNone) visit(length, node->id);
    }
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t id = kNone;
    uint32_t first_child = 0; // the children are neighbours, sorted by byte
    uint16_t children = 0;
    uint8_t byte = 0;
  };

  const Node* child(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;
};

} // namespace pumice::text
