#include "base/lines.h"

#include <doctest/doctest.h>

using pumice::split_lines;
using Lines = std::vector<std::string_view>;

TEST_CASE("a text is split into its lines, and an end of line at its end begins none") {
  CHECK(split_lines("") == Lines{});
  CHECK(split_lines("\n") == Lines{""});
  CHECK(split_lines("a") == Lines{"a"});
  CHECK(split_lines("a\n") == Lines{"a"});
  CHECK(split_lines("a\n\nbc") == Lines{"a", "", "bc"});
  CHECK(split_lines("\r\na\r\n") == Lines{"\r", "a\r"});
}
