#include "graph/liveness.h"

#include <algorithm>

namespace pumice {

namespace {

struct Interval {
  TensorId tensor = 0;
  size_t first = 0; // the node that writes it
  size_t last = 0;  // the last node that reads it
};

std::vector<Interval> live_intervals(const Graph& graph) {
  std::vector<Interval> intervals;
  std::vector<int> interval_of(graph.tensors().size(), -1);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (TensorId input : node.inputs) {
      if (int at = interval_of[graph.storage(input)]; at >= 0) intervals[static_cast<size_t>(at)].last = i;
    }
    std::vector<TensorId> outputs = node.more_outputs;
    outputs.insert(outputs.begin(), node.output);
    for (TensorId output : outputs) {
      if (graph.tensor(output).readable) continue;
      interval_of[output] = static_cast<int>(intervals.size());
      intervals.push_back({output, i, i});
    }
  }
  return intervals;
}

} // namespace

// First fit: each tensor, in the order of writing, takes the lowest place that no tensor alive at the same
// time has. A transformer is a chain of operations. For a chain this needs no more memory than the largest
// set of tensors that are alive together, which is the minimum.
MemoryLayout assign_memory(const Graph& graph, const std::vector<uint64_t>& bytes, uint64_t alignment) {
  MemoryLayout layout;
  layout.offsets.assign(graph.tensors().size(), MemoryLayout::nowhere);
  const std::vector<Interval> intervals = live_intervals(graph);
  for (size_t i = 0; i < intervals.size(); ++i) {
    std::vector<std::pair<uint64_t, uint64_t>> taken; // [begin, end) of the tensors alive at the same time
    for (size_t j = 0; j < i; ++j) {
      if (intervals[j].last < intervals[i].first) continue;
      const uint64_t begin = layout.offsets[intervals[j].tensor];
      taken.emplace_back(begin, begin + bytes[intervals[j].tensor]);
    }
    std::sort(taken.begin(), taken.end());
    uint64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + bytes[intervals[i].tensor] <= begin) break;
      offset = std::max(offset, (end + alignment - 1) / alignment * alignment);
    }
    layout.offsets[intervals[i].tensor] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes[intervals[i].tensor]);
  }
  return layout;
}

} // namespace pumice
