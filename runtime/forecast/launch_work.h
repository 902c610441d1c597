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
  double instructions = 0; // of all lanes; of a CPU: as many multiply-adds as take so long
  double integers = 0;     // of them: operations on integers, and conversions
  double flight_bytes = 0; // that an invocation asks for before it waits for any
  double trips = 1;        // how often it waits so, one time after the other
  double registers = 32;   // of an invocation
  double flops = 0;        // that are asked for
  // Of kernels with tiles in shared memory, which stage a tile, wait, multiply it, wait, and so on.
  bool tiles = false;
  bool overlaps = false;   // they stage the next one while they multiply one, and wait once
  double matrix_flops = 0; // with those of rows and columns that pad the tiles
  double shared_bytes = 0; // stored to shared memory and loaded from it
  double shared_kept = 0;  // bytes of it that a workgroup has
};

// What a step reads: tokens of one sequence, one after the other, or one of each of several.
struct StepExtent {
  uint32_t rows = 1;
  uint32_t positions = 1; // that the first one sees, its own included
  bool of_texts = false;  // a row is a sequence's, whose keys and values no other row sees

  uint32_t sequences() const { return of_texts ? rows : 1; }
  double mean_positions() const { return of_texts ? positions : positions + (rows - 1) / 2.0; }
  uint32_t most_positions() const { return of_texts ? positions : positions + rows - 1; }
};

LaunchWork work_of(const Dispatch& dispatch, const Chip& chip, const StepExtent& step);

} // namespace pumice
