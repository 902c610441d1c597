#pragma once

#include <vector>

#include "kernel/cache_layout.h"
#include "kernel/device_context.h"
#include "model/architecture.h"
#include "plan/plan.h"

namespace pumice {

// What one session's memory is made for.
struct SessionSize {
  uint32_t context = 0; // positions; 0 for the model's own
  uint32_t chunk = 128; // most tokens of one step
  uint32_t sequences = 1;
  CacheType cache = CacheType::f16;
  // Sequences are beams: each position's key and value may lie in another sequence's cache.
  bool beams = false;
  uint32_t input_positions = 0; // of the encoder's inputs that are kept at a time; 0: those of one input
};

// Where a session's state lies, decided before anything is allocated.
struct SessionMemory {
  SessionSize size;             // with its zeros filled in
  std::vector<CacheRef> caches; // of the decoder's layers, then of the encoder's inputs
  std::vector<uint64_t> cache_allocation_bytes;
  StepLayout step_layout;
  BufferRef step;
  BufferRef sampling;

  // The same caches with other steps: those of the encoder, of up to so many tokens of so many inputs.
  SessionMemory with_steps(uint32_t tokens, uint32_t inputs) const;
  PlanContext plan_context(const DeviceContext& context, WeightStore& weights) const;
};

// Tokens of a short prompt, which should not pay for a long chunk's grid.
constexpr uint32_t small_chunk = 16;

// The sizes of steps that a session has plans for, smallest first: one token, a short prompt's, a whole
// chunk's, and powers of two for a token of each of several sequences. Their largest scratch and outputs are
// what it allocates.
std::vector<Bucket> step_buckets(const SessionSize& size, bool all_outputs);
// The same of an encoder, whose steps have all of an input at once.
std::vector<Bucket> encoder_buckets(const EncoderShape& shape, const SessionSize& size);

// How one layer keeps its keys and values in a session of this size: all positions, or where its tokens see a
// window that is short beside the context, a ring.
CacheLayout cache_layout(const LayerCache& layer, const SessionSize& size);
// How a layer keeps those of the encoder's inputs, which lie one after the other.
CacheLayout input_cache_layout(const LayerCache& layer, const SessionSize& size);

SessionMemory plan_memory(const ModelShape& shape, const DeviceContext& context, SessionSize size);

} // namespace pumice
