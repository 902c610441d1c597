#pragma once

#include <vector>

#include "step/runner.h"

namespace pumice {

// All that a runner is made of, computed before anything is allocated.
struct RunnerLayout {
  SessionMemory memory;
  bool own_caches = true; // otherwise it uses those of another runner
  Graph graph;
  std::vector<Plan> plans; // smallest first
  AdapterMemory adapters;  // empty: it has no adapters
  // The largest size that any of the plans needs.
  uint64_t scratch_bytes = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// `shared` is the layout of the caches that the runner shares with another one; null: it gets its own.
Result<RunnerLayout> lay_out_runner(const Model& model, const RunnerOptions& options,
                                    const SessionMemory* shared);

// Device memory of a runner, with the driver's alignment and padding.
struct RunnerBytes {
  uint64_t cache = 0;   // 0 if the caches belong to another runner
  uint64_t scratch = 0; // including inputs, outputs and adapters
  uint64_t state = 0; // the step block, the ring that the host writes the next steps to, and sampling's state

  uint64_t total() const { return cache + scratch + state; }
};
Result<RunnerBytes> runner_bytes(const Device& device, const RunnerLayout& layout);

} // namespace pumice
