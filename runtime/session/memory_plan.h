#pragma once

#include <vector>

#include "kernel/cache_layout.h"
#include "kernel/device_context.h"
#include "models/architecture.h"
#include "plan/plan.h"

namespace pumice {

// What one session's memory is made for.
struct SessionSize {
  uint32_t context = 0; // positions; 0 for the model's own
  uint32_t chunk = 128; // most tokens of one step
  uint32_t sequences = 1;
  CacheType cache = CacheType::f16;
};

// Where a session's state lies, decided before anything is allocated.
struct MemoryPlan {
  SessionSize size;             // with its zeros filled in
  std::vector<CacheRef> caches; // by layer
  std::vector<uint64_t> cache_part_bytes;
  StepLayout step_layout;
  BufferRef step;
  BufferRef sampling;

  PlanContext plan_context(const DeviceContext& context, WeightStore& weights) const;
};

// The sizes of steps that a session has plans for, smallest first: one token, a short prompt's, a whole
// chunk's, and powers of two for a token of each of several sequences. Their largest scratch and outputs are
// what it allocates.
std::vector<Bucket> step_buckets(const SessionSize& size, bool all_outputs);

// How one layer keeps its keys and values in a session of this size: all positions, or where its tokens see a
// window that is short beside the context, a ring.
CacheLayout cache_layout(const LayerCache& layer, const SessionSize& size);

MemoryPlan plan_memory(const ModelShape& shape, const DeviceContext& context, SessionSize size);

} // namespace pumice
