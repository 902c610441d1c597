#include "base/workers.h"

#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/vulkan/failing_memory.h"

using namespace pumice;

TEST_CASE("workers do each part of the work once") {
  for (size_t most : {size_t{1}, size_t{2}, size_t{64}}) {
    Workers workers(most);
    for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
      CAPTURE(most);
      CAPTURE(count);
      std::vector<std::atomic<int>> times(count);
      CHECK(workers.run(count, [&](size_t i) { ++times[i]; }).ok());
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
  CHECK(workers.run(20, [&](size_t) { threads.insert(std::this_thread::get_id()); }).ok());
  CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("what a task throws on whichever thread comes back as an error, and the threads go on") {
  Workers workers(3);
  for (size_t thrower : {size_t{0}, size_t{1}, size_t{99}}) {
    CAPTURE(thrower);
    std::atomic<size_t> begun = 0;
    const Status status = workers.run(100, [&](size_t i) {
      ++begun;
      if (i == thrower) throw std::bad_alloc();
    });
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == Code::out_of_memory);
    CHECK(begun > thrower);
  }
  CHECK(says(workers.run(5, [](size_t) { throw std::runtime_error("it's broken"); }), {"it's broken"}) == "");
  CHECK(says(workers.run(5, [](size_t) { throw 7; }), {"unknown kind"}) == "");
  std::atomic<size_t> done = 0;
  CHECK(workers.run(100, [&](size_t) { ++done; }).ok());
  CHECK(done == 100);
}

#ifndef _WIN32 // support/vulkan/failing_memory.cpp asks the loader of ELF programs

TEST_CASE("a thread that gets no memory for a task says so, though it gets none for the words either") {
  Workers workers(2);
  if (workers.threads() < 2) return;
  const std::thread::id caller = std::this_thread::get_id();
  const FailingMemory memory(0, 0, true);
  std::atomic<bool> other = false;
  const Status status = workers.run(2, [&](size_t) {
    while (std::this_thread::get_id() == caller && !other) std::this_thread::yield();
    other = true;
    ::operator delete(::operator new(100));
  });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == Code::out_of_memory);
}

TEST_CASE("workers without memory for their threads use the caller's") {
  for (size_t allocation = 0; allocation < 4; ++allocation) {
    CAPTURE(allocation);
    std::optional<FailingMemory> memory;
    memory.emplace(FailingMemory::this_thread, allocation, true);
    Workers workers(8);
    memory.reset();
    if (allocation == 0) CHECK(workers.threads() == 1);
    std::atomic<size_t> done = 0;
    CHECK(workers.run(10, [&](size_t) { ++done; }).ok());
    CHECK(done == 10);
  }
}

#endif
