#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace pumice {

// Where each tensor's memory lies. Tensors that are never alive together share it.
struct MemoryLayout {
  static constexpr uint64_t nowhere = ~uint64_t{0};
  std::vector<uint64_t> offsets; // by TensorId; `nowhere` for views, kept tensors and tensors nothing makes
  uint64_t bytes = 0;
};

// `bytes[i]` is what tensor i takes, a multiple of `alignment`.
MemoryLayout assign_memory(const Graph& graph, const std::vector<uint64_t>& bytes, uint64_t alignment);

} // namespace pumice
