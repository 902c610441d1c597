#pragma once

#include "kernel/test_lowering.h"

// Lowers the graph's nodes and runs them with these tensors in place. `sequences`: inputs of the step at
// most.
inline void run_graph(const pumice::DeviceProfile& profile, const pumice::Graph& graph,
                      pumice::BufferRef step, uint32_t capacity,
                      const std::vector<std::pair<pumice::TensorId, pumice::ActivationRef>>& tensors,
                      uint32_t sequences = 1) {
  TestLowering lowering(profile, graph, step);
  lowering.set_step_layout({capacity, sequences, 0});
  for (const auto& [id, where] : tensors) lowering.place(id, where);
  for (size_t node = 0; node < graph.nodes().size(); ++node) {
    const pumice::Status status = lowering.lower(node);
    if (!status.ok()) FAIL(status.error().text());
  }
  lowering.run();
}
