#include <doctest/doctest.h>

#include "task/spans/token_windows.h"

using namespace pumice;

TEST_CASE("windows of tokens overlap, and each token belongs to the one in whose middle it stands") {
  const std::vector<TokenWindow> windows = token_windows(20, 10, 4);
  REQUIRE(windows.size() == 3);
  CHECK(windows[1].begin == 6);
  CHECK(windows[1].end == 16);
  CHECK(windows[0].last == 8);
  CHECK(windows[1].first == 8);
  CHECK(windows[2].begin == 12);
  CHECK(windows[2].end == 20);
  CHECK(windows[2].first == 14);
  CHECK(windows[2].last == 20);
  CHECK(token_windows(0, 10, 4).empty());
  CHECK(token_windows(10, 10, 4).size() == 1);
  CHECK(token_windows(3, 1, 0).size() == 3);
}
