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

} // namespace pumice
