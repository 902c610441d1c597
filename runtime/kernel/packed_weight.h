#pragma once

#include <vector>

#include "kernel/dispatch.h"
#include "kernel/weight_packing.h"

namespace pumice {

// A packed weight matrix on the device, or as many of its tiles as fit one allocation.
struct WeightSegment {
  uint32_t first_tile = 0;
  uint32_t tiles = 0; // a multiple of four
  BufferRef payload;
  BufferRef scales;
};

// A weight matrix in tiles of eight rows (kernel/weight_packing.h). It has more than one segment only if it
// is too large for one allocation or one descriptor of the device.
struct PackedWeight {
  PackedFormat format;
  uint32_t tiles = 0;
  std::vector<WeightSegment> segments;
};

} // namespace pumice
