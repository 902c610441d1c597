#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pumice::form {

// Tokens by their bytes, as a tree in the order in which it is walked: after a node comes its first child,
// and at `after` what does not begin with it.
struct TokenTree {
  struct Node {
    uint32_t after = 0;
    uint32_t first_token = 0;      // in `tokens`
    uint16_t token_count = 0;      // that end here
    uint16_t depth = 0;            // 1: the first byte
    uint16_t characters_below = 0; // most that begin after this node, in a token
    uint8_t byte = 0;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> tokens;
  uint32_t deepest = 0;

  TokenTree() = default;
  // Not of empty ones. Bytes after the 65,535th are not possible.
  explicit TokenTree(std::vector<std::pair<std::string_view, uint32_t>> tokens);

  // The tokens that begin with what a node is, and have more bytes.
  std::span<const uint32_t> below(size_t node) const;
};

} // namespace pumice::form
