#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"
#include "step/cache/memory_needs.h"

namespace pumice {

// Seconds of a step: of one token; of a token of each sequence of a group, and of all sequences; of a chunk
// of a prompt, or of a model with an encoder, of reading an input.
struct StepSeconds {
  double decode = 0;
  double group = 0;
  double together = 0;
  double prefill = 0;
};

// The layers that stages divide: an encoder's, then its decoder's.
struct LayerCounts {
  uint32_t encoder = 0;
  uint32_t decoder = 0;
  uint32_t last_cut = UINT32_MAX; // see ModelShape

  uint32_t all() const { return encoder + decoder; }
  bool can_cut(uint32_t before) const { return before <= encoder || before - encoder <= last_cut; }
};

// What stages of a model cost on one device, from steps that were measured there: of each layer, and what a
// stage has beside its layers.
struct DeviceCosts {
  struct Part {
    StepSeconds seconds;
    uint64_t bytes = 0; // of device memory: weights, keys and values, scratch
    // So long would it take all of the host's processors; 0 of a device that is none of them. Stages on such
    // devices of one machine take these from each other.
    StepSeconds processors = {};
  };
  // Of the encoder's layers, or of the decoder's.
  struct Side {
    Part layer;
    Part stage; // beside its layers, between others
    Part first; // the same of the one with the first layer, and so with the embedding
    Part last;  // the same of the one with the last layer: with the decoder's, the head and sampling
    Part whole; // beside the layers of the whole side in one stage

    Part of(const Stage& layers, uint32_t count) const;
  };
  Side encoder, decoder;
  uint64_t available = 0;      // bytes that are free
  uint32_t prefill_tokens = 0; // of StepSeconds::prefill
  uint64_t row_bytes = 0;      // that a hop carries for each row

  Part of(const Stage& stage, const LayerCounts& layers) const;
};

// How a model will be used.
struct StageUse {
  SessionSize size;    // size.sequences run at a time
  uint32_t groups = 1; // that they are divided into, see BatchGroups
  uint32_t prompt = 1; // tokens of a prompt, which a token that is generated follows; of a decoder without
                       // an encoder
  // The runners of all sessions together, as if the model were in one piece. Sessions share nothing but the
  // weights.
  std::function<Result<std::vector<SessionRunners>>(const Model& model)> sessions;
  LoadOptions load;

  uint32_t group_rows() const { return (size.sequences + groups - 1) / groups; }
};

// Loads small stages of the model, one after the other, and runs steps of them. Layers of a side are taken to
// be alike.
Result<DeviceCosts> measure_costs(const std::filesystem::path& path, const DeviceContext& context,
                                  const StageUse& use);
// Device memory of a stage at its peak, to the byte, before any of it is allocated.
Result<uint64_t> stage_bytes(const std::filesystem::path& path, const DeviceContext& context,
                             const StageUse& use, const Stage& stage);

// What a hop costs: the time until a message arrives, and how long the link is busy with the rows of a step.
struct HopCosts {
  double latency = 0;
  StepSeconds busy = {};
  bool one_machine = true; // all stages are in one
};
// Of a link with so many bytes a second; 0: the time for its bytes is not counted.
HopCosts hop_costs(double latency, double bytes_per_second, const DeviceCosts& device, const StageUse& use);

enum class SplitGoal {
  decode,    // the shortest step of one sequence
  sequences, // the shortest step of a group of sequences in the slowest stage: for many of them
  prefill,   // the shortest time of a prompt's chunk in the slowest stage
  memory,    // the smallest share of each device's memory
};

// A way to cut a model, and what is to be expected of it.
struct SplitPlan {
  std::vector<uint32_t> layers;          // of each device
  std::vector<DeviceCosts::Part> stages; // of each device
  StepSeconds sequence;                  // of a step that goes through all stages
  StepSeconds slowest; // stage, hop, or what they share: so long is a step of each of many groups

  // Of a token of each sequence of all groups.
  double round_seconds(uint32_t groups) const;
  // Of a prompt of so many chunks, which follow each other through the stages.
  double prompt_seconds(double chunks) const;
};

// The best cuts. An error if they fit no memory.
Result<SplitPlan> plan_split(std::span<const DeviceCosts> devices, const LayerCounts& layers,
                             const HopCosts& hop, SplitGoal goal);
// What is to be expected of given cuts.
SplitPlan expected_of(std::span<const DeviceCosts> devices, std::span<const uint32_t> layers,
                      const LayerCounts& counts, const HopCosts& hop);

} // namespace pumice
