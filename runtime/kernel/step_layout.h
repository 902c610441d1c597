#pragma once

#include <cstdint>

#include "shaders/common/step.h"

namespace pumice {

// Where the sections of a step block begin, in quads of four uints. See shaders/common/step.h.
struct StepLayout {
  uint32_t capacity = 0;  // rows of one step
  uint32_t sequences = 1; // sequences that its rows may belong to
  // Positions of a sequence that have cache_indirection, a multiple of 4; 0: no indirection, each sequence
  // uses its own cache.
  uint32_t positions = 0;
  // Whether each sequence may have an adapter (kernel/adapter/adapter.h): a quad for each at the end of the
  // block, as shaders/adapter/row_adapter.glsl reads it.
  bool has_adapters = false;
  // Pages of a sequence, a multiple of 4; 0: its positions are in no pages. Not with `positions`.
  uint32_t pages = 0;

  uint32_t details() const { return STEP_HEADER_QUADS + capacity; }
  uint32_t sequence_quads() const { return STEP_HEADER_QUADS + 2 * capacity; }
  uint32_t cache_indirection() const { return sequence_quads() + sequences; }
  uint32_t indirection_entries() const { return positions + pages; } // of each sequence
  uint32_t adapters() const { return cache_indirection() + sequences * (indirection_entries() / 4); }
  uint64_t bytes() const { return (uint64_t{adapters()} + (has_adapters ? sequences : 0)) * 16; }

  // Behind the block: uints in which workgroups of a launch count each other. They are zeros at the start of
  // a step, and each launch leaves zeros. They are no part of what launches read of the block, which then
  // need no barrier between them.
  static constexpr uint32_t counters = 1024;
  uint64_t counters_begin() const { return (bytes() + 255) / 256 * 256; } // where any binding may begin
  uint64_t bytes_with_counters() const { return counters_begin() + counters * sizeof(uint32_t); }
};

} // namespace pumice
