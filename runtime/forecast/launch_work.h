#pragma once

#include "forecast/chip.h"
#include "kernel/dispatch.h"

namespace pumice {

// What a launch asks of a chip, by its kernel's source: shaders/, and for instructions what compilers make of
// them.
struct LaunchWork {
  double groups = 1;       // workgroups that have something to do
  double invocations = 1;  // of a workgroup
  double memory_bytes = 0; // weights, keys and values: each comes from memory once
  double cache_bytes =
      0; // what all workgroups load and store of it and of activations: the shared cache gives it
  double instructions = 0; // slots of all lanes; of a CPU: as many multiply-adds as take so long
  double flight_bytes = 0; // that an invocation asks for before it waits for any
  double trips = 1;        // how often it waits so, one time after the other
  double registers = 32;   // of an invocation
};

// `positions`: that the step's row sees, its own included.
LaunchWork work_of(const Dispatch& dispatch, const Chip& chip, uint32_t positions);

} // namespace pumice
