#pragma once

#include <vector>

#include "step/runner.h"

namespace pumice {

// All that a runner is made of, decided before anything is allocated.
struct RunnerLayout {
  SessionMemory memory;
  bool own_caches = true; // else they are those of another runner
  Graph graph;
  std::vector<Plan> plans; // smallest first
  // The most of any plan.
  uint64_t scratch_bytes = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// `shared` is the plan of the caches that the runner shares with another one; null: it has its own.
Result<RunnerLayout> lay_out_runner(const Model& model, const RunnerOptions& options,
                                    const SessionMemory* shared);

// Device memory of a runner, as the driver has it.
struct RunnerBytes {
  uint64_t cache = 0;   // unless it is another's
  uint64_t scratch = 0; // with what goes in and what is kept
  uint64_t state = 0;   // the steps' block, what the host writes of the next ones, sampling's state

  uint64_t total() const { return cache + scratch + state; }
};
Result<RunnerBytes> runner_bytes(const Device& device, const RunnerLayout& plan);

} // namespace pumice
