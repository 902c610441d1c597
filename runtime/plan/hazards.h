#pragma once

#include <vector>

#include "kernel/dispatch.h"

namespace pumice {

// Finds the barriers that a sequence of launches needs: between a write and a later read or write of the same
// bytes, and between a read and a later write.
class HazardTracker {
public:
  // Returns whether a barrier has to come before this launch. If so, the launches before it are forgotten.
  bool add(const Dispatch& dispatch);

private:
  std::vector<Dispatch::Binding> since_barrier_;
};

// Whether both read the same numbers, compute the same of them, and write it to the same place.
bool same_launch(const Dispatch& a, const Dispatch& b);

// Whether `dispatch` writes to what `other` reads or writes.
bool overwrites(const Dispatch& dispatch, const Dispatch& other);

} // namespace pumice
