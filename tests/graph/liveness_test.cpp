#include "graph/liveness.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "graph/cut.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/pooling/pooling.h"
#include "kernel/position/position.h"

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
      if (random() % 10 == 0) graph.make_readable(made.back(), "readable");
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
      if (graph.tensor(nodes[i].output).readable) {
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

TEST_CASE("a second output lives until its last reader") {
  Graph graph;
  const TensorId x = graph.add_tensor({"x", RowKind::tokens, 32, {}, false});
  const TensorId made = activate(graph, "made", x, Activation::relu);
  const TensorId beside = graph.add_output(graph.producer(made), {"beside", RowKind::tokens, 32, {}, false});
  CHECK(graph.producer(beside) == graph.producer(made));
  const TensorId between = activate(graph, "between", made, Activation::relu);
  const TensorId sum = add(graph, "sum", between, beside);
  const std::vector<uint64_t> bytes(graph.tensors().size(), 256);
  const MemoryLayout layout = assign_memory(graph, bytes, 256);
  CHECK(layout.offsets[beside] != MemoryLayout::nowhere);
  CHECK(layout.offsets[beside] != layout.offsets[made]);
  CHECK(layout.offsets[beside] != layout.offsets[between]);
  CHECK(layout.offsets[beside] != layout.offsets[sum]);
  CHECK(graph.text().find("made, beside") != std::string::npos);
}

TEST_CASE("a node can be put between others") {
  Graph graph;
  const TensorId x = graph.add_tensor({"x", RowKind::tokens, 32, {}, false});
  const TensorId a = activate(graph, "a", x, Activation::relu), b = activate(graph, "b", a, Activation::relu);
  const TensorId between =
      graph.insert(1, graph.nodes()[0].operation, {a}, {"c", RowKind::tokens, 32, {}, false});
  REQUIRE(graph.nodes().size() == 3);
  CHECK(graph.producer(a) == 0);
  CHECK(graph.producer(between) == 1);
  CHECK(graph.producer(b) == 2);
  CHECK(graph.producer(x) == 3); // an input, which no node makes
}

TEST_CASE("rows of outputs that nobody reads are left out, and what is stored stays") {
  Graph graph;
  const TensorId x = graph.add_tensor({"x", RowKind::tokens, 32, {}, false});
  const TensorId states = activate(graph, "states", x, Activation::relu);
  cache_store(graph, "stored", states, states, 0);
  const TensorId first = select_rows(graph, "first", states);
  const TensorId pooled = activate(graph, "pooled", first, Activation::tanh);
  const TensorId mean = mean_rows(graph, "mean", states);
  const auto names_after = [&](TensorId readable) {
    Graph copy = graph;
    copy.make_readable(readable, copy.tensor(readable).name);
    drop_unread_outputs(copy);
    std::vector<std::string> names;
    for (const Node& node : copy.nodes()) names.push_back(copy.tensor(node.output).name);
    return names;
  };
  CHECK(names_after(mean) == std::vector<std::string>{"states", "stored", "mean"});
  CHECK(names_after(pooled) == std::vector<std::string>{"states", "stored", "first", "pooled"});
  const TensorId part = graph.add_tensor({"part", RowKind::outputs, 16, View{pooled, 0}, false});
  CHECK(names_after(part) == std::vector<std::string>{"states", "stored", "first", "pooled"});
}
