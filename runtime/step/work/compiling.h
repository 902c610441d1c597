#pragma once

#include <cstddef>

#include "base/progress.h"

namespace pumice {

// How the kernels of something are compiled while it is made.
struct Compiling {
  size_t threads = 0; // beside the calling one
  Progress progress = {};
};

} // namespace pumice
