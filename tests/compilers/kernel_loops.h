#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "kernel/dispatch.h"

// How often the loops of variants' kernels run, which their compilers do not know.

// A loop of a kernel. Of its instructions only the ratios between a kernel's loops matter; rough counts do.
struct KernelLoop {
  double instructions = 1; // of a pass, without those of the loops in it
  double passes = 0;       // of an invocation, in all
  size_t depth = 1;        // 1: it is in no other loop; 0: it is no loop, or compilers unroll it
};

// What an invocation of a launch does.
struct KernelWork {
  double invocations = 0;        // of a workgroup
  std::vector<KernelLoop> loops; // those in which almost all of the time goes by; empty: in none
  double multiplications = 0;    // 0 where matrix units do them
  double bytes = 0; // of the whole launch: what memory moves, as far as caches do not give it faster
  // All instructions of the loops, where what is around them is a large part of a kernel.
  double loop_instructions = std::numeric_limits<double>::infinity();
};

// Nothing for a kernel that is not known here, and for launches whose loops depend on more than the launch.
std::optional<KernelWork> kernel_work(const pumice::Dispatch& dispatch);
