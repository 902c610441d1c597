#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "kernel/cache_layout.h"
#include "kernel/device_context.h"
#include "kernel/state_layout.h"
#include "model/architecture.h"
#include "plan/plan.h"

namespace pumice {

// The most tokens of a text that a step guesses at.
inline constexpr uint32_t most_drafts = 31;

// The longest context of a session whose caller asks for none. Models are made for up to a million positions,
// and few devices have memory for the keys and values of so many.
inline constexpr uint32_t default_context = 4096;
// The context of a session whose caller asks for `asked` positions; 0: for none.
inline uint32_t context_for(uint32_t asked, const ModelShape& shape) {
  return asked ? asked : std::min(shape.context, default_context);
}

// As many pages as all sequences can fill.
inline constexpr uint32_t all_pages = UINT32_MAX;

// The sizes that a session's memory is made for.
struct SessionSize {
  uint32_t context = 0; // positions; 0 for the model's own, at most default_context
  uint32_t chunk = 128; // most tokens of one step
  uint32_t sequences = 1;
  uint32_t drafts = 0; // most tokens of a sequence that a step guesses at, see DraftCosts
  CacheType cache = CacheType::f16;
  // The sequences are beams: the key and value of a position may lie in the cache of another sequence.
  bool beams = false;
  // Pages of keys and values that all sequences take theirs from, all_pages or fewer; 0: each
  // sequence has memory of its own. Without beams, and not where the model is in stages.
  uint32_t pages = 0;
  uint32_t input_positions =
      0; // of the encoder's inputs that are in the caches at a time; 0: as many as one input has at most
};

// Where a session's caches and state lie in memory, decided before anything is allocated.
struct SessionMemory {
  SessionSize size;             // with defaults in place of zeros
  std::vector<CacheRef> caches; // of the decoder's layers, then of the encoder's inputs
  std::vector<StateRef> states; // of the decoder's recurrent operations
  std::vector<uint64_t> cache_allocation_bytes;
  StepLayout step_layout;
  BufferRef step;
  BufferRef sampling;
  uint64_t draft_mask_bytes = 0; // the last of the sampling's, see SamplingState

  // The same caches with the steps of an encoder, which have at most `tokens` tokens of `inputs` inputs.
  SessionMemory with_steps(uint32_t tokens, uint32_t inputs) const;
  PlanContext plan_context(const DeviceContext& context, WeightStore& weights) const;
};

// The size of the plan for short prompts, which would waste work in the plan of a whole chunk.
constexpr uint32_t small_chunk = 16;

// The sizes of steps that a session has plans for, smallest first: one token, small_chunk, a whole chunk, up
// to one token of each sequence sizes that are at most a quarter apart, and powers of two up to all that are
// guessed at. The session allocates the largest scratch and outputs of
// these plans.
std::vector<Bucket> step_buckets(const SessionSize& size, bool all_outputs);
// The same for an encoder, whose steps always hold whole inputs.
std::vector<Bucket> encoder_buckets(const EncoderShape& shape, const SessionSize& size);

// How a decoder layer stores its keys and values in a session of this size: all positions, or a ring of
// positions if the layer has a window that is short compared with the context.
CacheLayout cache_layout(const LayerCache& layer, const SessionSize& size);
// The same in parts that a kernel reaches, of at most `range` bytes of keys each. A ring that cannot be
// divided becomes a cache of all positions.
CacheLayout divided_layout(const LayerCache& layer, const SessionSize& size, uint64_t range);
// How a layer stores the keys and values of the encoder's inputs, which lie one after the other.
CacheLayout input_cache_layout(const LayerCache& layer, const SessionSize& size);

// How the states of a model are kept: with as many checkpoints as fit the memory that they may take, and a
// binding of `range` bytes.
std::vector<StateLayout> state_layouts(const ModelShape& shape, const SessionSize& size, uint64_t range);

// The caches and states that a stage of the model uses, by their numbers. Those of other stages have the same
// layouts, so that all stages agree on where a sequence can go back to, but no memory.
struct StageMemory {
  std::set<uint32_t> caches;
  std::set<uint32_t> states;
};

// A size beyond its limits is clamped: the chunk to what the context and the sequences can fill. `stage`:
// null if all of the model's caches and states get memory.
SessionMemory lay_out_memory(const ModelShape& shape, const DeviceContext& context, SessionSize size,
                             const StageMemory* stage = nullptr);

} // namespace pumice
