#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "model/model.h"

namespace pumice {

// Seconds of a step: of one token, and of a chunk of a prompt.
struct StepSeconds {
  double decode = 0;
  double prefill = 0;
};

// What stages of a model cost on one device, from steps that were measured there: of each layer, and what a
// stage has beside its layers.
struct DeviceCosts {
  struct Part {
    StepSeconds seconds;
    uint64_t bytes = 0; // of device memory: weights, keys and values, scratch
  };
  Part layer;
  Part stage;             // beside its layers, between others
  Part first;             // the same of the first one, with the embedding
  Part last;              // the same of the last one, with the head and sampling
  Part whole;             // beside the layers of the whole model in one stage
  uint64_t available = 0; // bytes that are free

  Part of(const Stage& stage, uint32_t layers) const;
};

// Loads small stages of the model, one after the other, and runs steps of them. The model has at least four
// layers, which are taken to be alike.
Result<DeviceCosts> measure_costs(const std::filesystem::path& path, const DeviceContext& context,
                                  const SessionSize& size, const LoadOptions& options = {});

enum class SplitGoal {
  decode,  // the shortest step of one sequence
  prefill, // the shortest time of the slowest stage: for prompts, and for many sequences
  memory,  // the smallest share of each device's memory
};

// A way to cut a model, and what is to be expected of it.
struct SplitPlan {
  std::vector<uint32_t> layers;          // of each device
  std::vector<DeviceCosts::Part> stages; // of each device
  StepSeconds sequence;                  // of a step that goes through all stages
  StepSeconds slowest;                   // stage: so long is a step of each of many groups
};

// The best cuts before layers up to `last_cut`. `hop`: seconds of one. An error if they fit no memory.
Result<SplitPlan> plan_split(std::span<const DeviceCosts> devices, uint32_t layers, uint32_t last_cut,
                             const StepSeconds& hop, SplitGoal goal);
// What is to be expected of given cuts.
SplitPlan expected_of(std::span<const DeviceCosts> devices, std::span<const uint32_t> layers,
                      const StepSeconds& hop);

} // namespace pumice
