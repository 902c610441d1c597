#pragma once

#include <cstddef>
#include <cstdint>

// The host's memory running out, as long as this lives: operator new of the test program throws
// std::bad_alloc on one thread. Only what the program itself allocates, itself or through the C++ library,
// can fail: drivers and their compilers end the process when they get no memory. There is one at a time.
class FailingMemory {
public:
  static constexpr size_t this_thread = SIZE_MAX;

  // `thread`: the one that made this, or any other, which are numbered from 0 in the order of their first
  // allocations. Its allocations are numbered from 0, too: the one of the number `allocation` fails, and all
  // that follow if `lasting`.
  FailingMemory(size_t thread, size_t allocation, bool lasting);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  bool failed() const; // whether that allocation has come
};
