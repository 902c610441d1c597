#include "gpu/memory.h"

#include "support/command/messages.h"

#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

uint64_t available(uint64_t heap, uint64_t allocated, uint64_t limit, HeapBudget driver = {}) {
  MemoryReport report;
  report.heap = heap;
  report.allocated = allocated;
  report.limit = limit;
  return with_available(report, driver).available;
}

} // namespace

TEST_CASE("device memory: the available amount is the smallest of what heap, limit and driver leave") {
  CHECK(available(1000, 0, 0) == 1000);
  CHECK(available(1000, 300, 0) == 700);
  CHECK(available(1000, 300, 500) == 200);
  CHECK(available(1000, 300, 5000) == 700);
  CHECK(available(1000, 600, 500) == 0);
  CHECK(available(1000, 1200, 0) == 0);
  CHECK(available(1000, 100, 0, {800, 300}) == 500);
  CHECK(available(1000, 100, 200, {800, 300}) == 100);
  CHECK(available(1000, 100, 0, {800, 900}) == 0); // others use more than their share
}

TEST_CASE("device memory: impossible values of a driver are ignored") {
  CHECK(available(1000, 100, 0, {0, 0}) == 900);
  CHECK(available(1000, 100, 0, {0, 5}) == 900);
  CHECK(available(1000, 100, 0, {UINT64_MAX, 0}) == 900);
  CHECK(available(1000, 0, 0, {4000, 3500}) == 1000);
  CHECK(available(1000, 100, 0, {4000, 950}) == 50);
  CHECK(available(1000, 100, 0, {500, UINT64_MAX}) == 900);
  CHECK(available(0, 0, 0, {500, 100}) == 0);
}

TEST_CASE("device memory: allocations may reach the limit but not exceed it") {
  MemoryCount count(100);
  CHECK(count.reserve(60).ok());
  CHECK(says(count.reserve(41), {"41 bytes", "60 bytes that are allocated", "limit of 100 bytes"}) == "");
  CHECK(count.reserve(41).error().code == Code::out_of_memory);
  CHECK(count.reserve(40).ok());
  CHECK(!count.reserve(UINT64_MAX).ok());
  CHECK(count.allocated() == 0); // nothing is allocated yet
  count.confirm(60);
  count.cancel(40);
  CHECK(count.allocated() == 60);
  CHECK(count.peak() == 60);
  count.release(60);
  CHECK(count.reserve(100).ok());
  CHECK(count.allocated() == 0);
  CHECK(count.peak() == 60);
}

TEST_CASE("device memory: the limit holds while many threads allocate") {
  constexpr uint64_t limit = 1000;
  MemoryCount count(limit);
  std::atomic<uint64_t> taken = 0, most = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, bytes = 300 + i] {
      for (int turn = 0; turn < 2000; ++turn) {
        if (!count.reserve(bytes).ok()) {
          ++refused;
          continue;
        }
        const uint64_t now = taken += bytes;
        uint64_t before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        count.confirm(bytes);
        std::this_thread::yield();
        taken -= bytes;
        count.release(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= limit);
  CHECK(count.peak() <= limit);
  CHECK(count.allocated() == 0);
}
