#include "base/fresh_memory.h"

#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

TEST_CASE("memory that was freed is not handed out again") {
  if (sizeof(void*) < 8) return;
  std::set<const char*> seen;
  std::vector<std::pair<char*, size_t>> kept;
  for (size_t i = 0; i < 5000; ++i) {
    const size_t size =
        i == 100 ? size_t{3} << 20 : 1 + i * 7 % 9000; // one that is larger than what is reserved
    auto* const memory = static_cast<char*>(allocate_fresh(size));
    std::memset(memory, static_cast<int>(i % 256), size);
    CHECK(seen.insert(memory).second);
    if (i % 100 == 0) {
      kept.emplace_back(memory, size);
    } else {
      free_fresh(memory, size);
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto& [memory, size] = kept[i];
    const auto expected = static_cast<char>(i * 100 % 256);
    CHECK(memory[0] == expected);
    CHECK(memory[size - 1] == expected);
    free_fresh(memory, size);
  }
}
