#include "base/low_priority.h"

#include <doctest/doctest.h>

#include "support/thread_priority.h"

using namespace pumice;

TEST_CASE("a thread of low priority starts others like it, and nobody else changes") {
  const int usual = nice_value();
  int lowered = 0, again = 0, child = 0, other = 0;
  std::thread first = start_thread([&] {
    lower_priority();
    lowered = nice_value();
    lower_priority();
    again = nice_value();
    std::thread second = start_thread([&] {
      child = nice_value();
      lower_priority(); // it is already
      if (nice_value() != child) child = -1;
    });
    second.join();
  });
  first.join();
  std::thread third = start_thread([&] { other = nice_value(); });
  third.join();
#ifdef __linux__
  CHECK((lowered > usual || usual == 19));
#endif
  CHECK(again == lowered);
  CHECK(child == lowered);
  CHECK(other == usual);
  CHECK(nice_value() == usual);
}
