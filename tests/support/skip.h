#pragma once

#include <string>

#include <doctest/doctest.h>

// Whether the running test case could not run here.
inline bool& case_is_skipped() {
  static bool skipped = false;
  return skipped;
}

// Says that this device or this build cannot run the test case, which then returns. Where no chosen case
// could run, the program's exit status is what CTest reports as skipped (tests/CMakeLists.txt).
inline void skip(const std::string& reason) {
  MESSAGE("skipped: " << reason);
  case_is_skipped() = true;
}
