#pragma once

#include <cstddef>
#include <cstdint>

#include "base/progress.h"

namespace pumice {

// How something that runs a model is made.
struct Making {
  bool prepared = false; // all kernels are compiled now, and not when they first run
  size_t threads = 0;    // that compile kernels, beside the calling one
  Progress progress = {};
  uint32_t chunk = 0; // most tokens of a step, where the options of what is made do not say; 0: as usual
  // With `prepared`: steps have run in slices, so that the costs of their dispatches are known.
  bool warm_up = false;
  bool all = false; // with `prepared`: also what is otherwise made when it is first needed
};

} // namespace pumice
