#include "graph/liveness.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "kernel/elementwise.h"

using namespace pumice;

TEST_CASE("tensors that are alive together never share memory") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Graph graph;
    std::vector<TensorId> made = {graph.add_tensor({"x", RowKind::tokens, 32, {}, false})};
    const size_t count = 2 + random() % 30;
    for (size_t i = 0; i < count; ++i) {
      const TensorId a = made[random() % made.size()], b = made[random() % made.size()];
      made.push_back(add(graph, "t", a, b));
      if (random() % 10 == 0) graph.keep(made.back(), "kept");
    }
    std::vector<uint64_t> bytes(graph.tensors().size());
    uint64_t total = 0;
    for (uint64_t& size : bytes) total += size = 256 * (1 + random() % 8);
    const MemoryLayout layout = assign_memory(graph, bytes, 256);
    CHECK(layout.bytes <= total);

    // A tensor is alive from the node that makes it to the last that reads it.
    const auto nodes = graph.nodes();
    const auto last_read = [&](size_t made_at) {
      size_t last = made_at;
      for (size_t i = made_at; i < nodes.size(); ++i) {
        const auto& inputs = nodes[i].inputs;
        if (std::count(inputs.begin(), inputs.end(), nodes[made_at].output)) last = i;
      }
      return last;
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      const uint64_t begin = layout.offsets[nodes[i].output];
      if (graph.tensor(nodes[i].output).kept) {
        CHECK(begin == MemoryLayout::nowhere);
        continue;
      }
      CHECK(begin % 256 == 0);
      CHECK(begin + bytes[nodes[i].output] <= layout.bytes);
      for (size_t j = i + 1; j <= last_read(i); ++j) {
        const uint64_t other = layout.offsets[nodes[j].output];
        if (other == MemoryLayout::nowhere) continue;
        const bool apart = other >= begin + bytes[nodes[i].output] || begin >= other + bytes[nodes[j].output];
        CHECK(apart);
      }
    }
  }
}

TEST_CASE("a chain of any length takes the memory of its two largest neighbours") {
  Graph graph;
  TensorId x = graph.add_tensor({"x", RowKind::tokens, 32, {}, false});
  for (int i = 0; i < 50; ++i) x = activate(graph, "t", x, Activation::relu);
  const std::vector<uint64_t> bytes(graph.tensors().size(), 1024);
  CHECK(assign_memory(graph, bytes, 256).bytes == 2048);
}
