#pragma once

#include "kernel/cache_layout.h"
#include "kernel/device_profile.h"
#include "kernel/position/position.h"

namespace pumice {

// Moves what a sequence's cache has at positions from `first` + `distance` on to those from `first` on:
// `count` of them, at most `distance`. Keys are rotated back by the distance.
struct CacheShiftArgs {
  CacheRef cache; // whole, of F32 or F16, and no ring
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t rotary_dim = 0;
  BufferRef table; // rotary_table(), if keys are rotated
  uint32_t sequence = 0;
  uint32_t first = 0, count = 0;
  uint32_t distance = 0;
};

Dispatch cache_shift(const DeviceProfile& profile, const CacheShiftArgs& args);

} // namespace pumice
