#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace pumice {

// Where each tensor lies in one block of memory, in bytes. Tensors that are never alive together may share a
// place.
struct MemoryLayout {
  static constexpr uint64_t nowhere = ~uint64_t{0};
  std::vector<uint64_t> offsets; // by TensorId; `nowhere` for views, readable and unwritten tensors
  uint64_t bytes = 0;            // of the whole block
};

// Assigns a place to each tensor that a node writes. `bytes[i]` is the size of tensor i, a multiple of
// `alignment`.
MemoryLayout assign_memory(const Graph& graph, const std::vector<uint64_t>& bytes, uint64_t alignment);

} // namespace pumice
