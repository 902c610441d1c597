#include "base/workers.h"

#include <atomic>
#include <set>

#include <doctest/doctest.h>

using namespace pumice;

TEST_CASE("workers do each part of the work once") {
  for (size_t most : {size_t{1}, size_t{2}, size_t{64}}) {
    Workers workers(most);
    for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
      CAPTURE(most);
      CAPTURE(count);
      std::vector<std::atomic<int>> times(count);
      workers.run(count, [&](size_t i) { ++times[i]; });
      size_t once = 0;
      for (const auto& each : times) once += each == 1;
      CHECK(once == count);
    }
  }
}

TEST_CASE("workers that are told of one thread use the caller's") {
  Workers workers(1);
  CHECK(workers.threads() == 1);
  std::set<std::thread::id> threads;
  workers.run(20, [&](size_t) { threads.insert(std::this_thread::get_id()); });
  CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
}
