#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "io/tensor_type.h"
#include "kernel/dispatch.h"

namespace pumice {

// The matrix of a product to which adapters can add: its tensor in the model's file, and the first of its
// rows there, as in WeightView.
struct AdapterTarget {
  std::string tensor;
  uint64_t first = 0;

  static AdapterTarget of(const WeightView& weight) { return {weight.tensor->name, weight.first}; }
  auto operator<=>(const AdapterTarget&) const = default;
};

// What the steps of a session have room for beside the model's weights.
struct AdapterRoom {
  uint32_t places = 1;                  // adapters at a time
  uint32_t rank = 1;                    // of the largest one
  TensorType numbers = TensorType::f32; // F16 or BF16: of all adapters
  std::set<AdapterTarget> targets;
};

// Adds what adapters do to the products of a graph whose gates and activations are fused. Nothing else of the
// graph changes, except that what follows those products cannot become a part of them.
void add_adapters(Graph& graph, const AdapterRoom& room, std::vector<Node>& nodes);

// The same where products add the second halves themselves: of a graph whose products are complete, but not
// yet parts of attentions. The products do not change otherwise.
void add_adapters_to_products(Graph& graph, const AdapterRoom& room, std::vector<Node>& nodes);

// Where a target's two matrices (kernel/adapter/adapter_packing.h) lie in the places of an adapter's memory.
struct AdapterPart {
  AdapterTarget target;
  uint32_t rows = 0, columns = 0; // of the target
  BufferRef down; // of all places; no bytes: of a matrix beside a target, to which no adapter adds
  uint64_t down_first = 0, down_step = 0; // bytes: in a place; from one place to the next
  BufferRef up;                           // of all places
  uint64_t up_first = 0, up_step = 0;
  std::optional<uint32_t> h_first; // set if a product adds it, see packed_adapter_tiles()
};
// The memory of a graph's adapters. There may be several parts of one target.
struct AdapterMemory {
  uint32_t rank = 0; // that places have rows for
  TensorType numbers = TensorType::f32;
  std::vector<AdapterPart> parts;
  std::vector<uint64_t> allocation_bytes;

  static AdapterMemory of(const Graph& graph, uint32_t places);
};

} // namespace pumice
