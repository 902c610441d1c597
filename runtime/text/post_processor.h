#pragma once

#include <cstdint>
#include <vector>

namespace pumice::text {

// The tokens that go around a text.
struct PostProcessor {
  std::vector<uint32_t> before, after;

  // Puts more around what is there.
  void wrap(const std::vector<uint32_t>& left, const std::vector<uint32_t>& right) {
    before.insert(before.begin(), left.begin(), left.end());
    after.insert(after.end(), right.begin(), right.end());
  }
};

} // namespace pumice::text
