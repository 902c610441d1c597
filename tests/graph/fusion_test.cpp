#include "plan/fusion.h"

#include <array>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernel/attention/attention.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/matmul/linear.h"
#include "kernel/norm/norm.h"

using namespace pumice;

namespace {

// A graph over weights that have names, types and shapes and no data.
struct Draft {
  std::vector<std::unique_ptr<TensorView>> sources;
  Graph graph;

  WeightId weight(uint64_t rows, uint64_t columns, TensorType type = TensorType::f32) {
    sources.push_back(std::make_unique<TensorView>());
    *sources.back() = {fmt::format("w{}", sources.size()), type, {rows, columns}, {}};
    return graph.weight(WeightView::whole(*sources.back()), "attention");
  }
  TensorId input(uint32_t columns) { return graph.add_tensor({"x", RowKind::tokens, columns, {}, false}); }
  TensorId product(TensorId x, uint64_t rows, TensorType type = TensorType::f32) {
    return linear(graph, "p", x, weight(rows, graph.tensor(x).columns, type));
  }
  const Linear& linear_at(size_t node) const {
    const auto* operation = dynamic_cast<const Linear*>(graph.nodes()[node].operation.get());
    REQUIRE(operation);
    return *operation;
  }
};

} // namespace

TEST_CASE("products of one input become one product, and their results views of its result") {
  Draft draft;
  const TensorId x = draft.input(64);
  const TensorId query = draft.product(x, 80), key = draft.product(x, 20), value = draft.product(x, 20);
  scale(draft.graph, "reader", query, 2);
  fuse(draft.graph);
  REQUIRE(draft.graph.nodes().size() == 2);
  CHECK(draft.linear_at(0).matrices == 3);
  CHECK(draft.graph.nodes()[0].weights.size() == 3);
  const TensorId base = draft.graph.nodes()[0].output;
  CHECK(draft.graph.tensor(base).columns == 128 + 64 + 64); // each part begins where a binding can
  CHECK(draft.graph.tensor(query).view->first_column == 0);
  CHECK(draft.graph.tensor(key).view->first_column == 128);
  CHECK(draft.graph.tensor(value).view->first_column == 192);
  CHECK(draft.graph.storage(value) == base);
}

TEST_CASE("products by weights of different types are not merged") {
  Draft draft;
  const TensorId x = draft.input(64);
  draft.product(x, 32, TensorType::q4_0);
  draft.product(x, 32, TensorType::q8_0);
  fuse(draft.graph);
  CHECK(draft.graph.nodes().size() == 2);
}

TEST_CASE("types are those that weights will have on the device") {
  Draft draft;
  const TensorId x = draft.input(64);
  draft.product(x, 32, TensorType::f16);
  draft.product(x, 32, TensorType::q8_0);
  draft.product(x, 32, TensorType::f32);
  draft.product(x, 32, TensorType::q4_0);
  fuse(draft.graph, TensorType::q8_0);
  REQUIRE(draft.graph.nodes().size() == 2);
  CHECK(draft.linear_at(0).matrices == 3);
}

TEST_CASE("a gate moves into its two products, a residual into its one") {
  Draft draft;
  const TensorId x = draft.input(64);
  const TensorId gated = gate(draft.graph, "g", draft.product(x, 96), draft.product(x, 96), Activation::silu);
  const TensorId sum = add(draft.graph, "sum", draft.product(gated, 64), x);
  draft.graph.make_readable(sum, "result");
  fuse(draft.graph);
  REQUIRE(draft.graph.nodes().size() == 2);
  CHECK(draft.linear_at(0).gated);
  CHECK(draft.linear_at(0).activation == Activation::silu);
  CHECK(draft.linear_at(1).residual);
  CHECK(draft.graph.nodes()[1].inputs == std::vector<TensorId>{gated, x});
  CHECK(draft.graph.nodes()[1].output == sum);
}

TEST_CASE("an activation moves into its product, a residual after it") {
  Draft draft;
  const TensorId x = draft.input(64);
  const TensorId up = activate(draft.graph, "activated", draft.product(x, 96), Activation::gelu);
  draft.graph.make_readable(
      add(draft.graph, "sum", activate(draft.graph, "a", draft.product(up, 64), Activation::relu), x),
      "result");
  fuse(draft.graph);
  REQUIRE(draft.graph.nodes().size() == 2);
  CHECK(draft.linear_at(0).activation == Activation::gelu);
  CHECK(draft.linear_at(1).activation == Activation::relu);
  CHECK(draft.linear_at(1).residual);
}

TEST_CASE("only the rows that are selected are computed") {
  // Two layers of a feed-forward with residuals; what mixes rows lies before them.
  Draft draft;
  const TensorId x = draft.input(64);
  const TensorId first = add(draft.graph, "first", draft.product(x, 64), x);
  const TensorId gated =
      gate(draft.graph, "g", draft.product(first, 96), draft.product(first, 96), Activation::silu);
  const TensorId second = add(draft.graph, "second", draft.product(gated, 64), first);
  SUBCASE("back to the input") {
    const TensorId rows = select_rows(draft.graph, "rows", second);
    draft.graph.make_readable(draft.product(rows, 32), "result");
    fuse(draft.graph);
    REQUIRE(draft.graph.nodes().size() == 4);
    CHECK(draft.linear_at(0).selected);
    CHECK(draft.linear_at(0).residual);
    CHECK(draft.graph.nodes()[0].inputs == std::vector<TensorId>{x, x});
    for (const Node& node : draft.graph.nodes())
      CHECK(draft.graph.tensor(node.output).rows == RowKind::outputs);
    for (size_t node : {1, 2, 3}) CHECK(!draft.linear_at(node).selected);
  }
  SUBCASE("back to a tensor of which all rows are read") {
    draft.graph.make_readable(first, "first");
    const TensorId rows = select_rows(draft.graph, "rows", second);
    draft.graph.make_readable(draft.product(rows, 32), "result");
    fuse(draft.graph);
    const auto& nodes = draft.graph.nodes();
    CHECK(draft.graph.tensor(nodes[0].output).rows == RowKind::tokens);
    for (size_t node = 1; node < nodes.size(); ++node)
      CHECK(draft.graph.tensor(nodes[node].output).rows == RowKind::outputs);
  }
  SUBCASE("back to a cut") {
    const TensorId rows = select_rows(draft.graph, "rows", second);
    draft.graph.make_readable(draft.product(rows, 32), "result");
    fuse(draft.graph, {}, std::array{x, first});
    const auto& nodes = draft.graph.nodes();
    CHECK(nodes[0].output == first);
    CHECK(draft.graph.tensor(first).rows == RowKind::tokens);
    for (size_t node = 1; node < nodes.size(); ++node)
      CHECK(draft.graph.tensor(nodes[node].output).rows == RowKind::outputs);
  }
  SUBCASE("not if no product gets smaller") {
    const TensorId rows = select_rows(draft.graph, "rows", scale(draft.graph, "scaled", second, 2));
    draft.graph.make_readable(second, "second");
    draft.graph.make_readable(draft.product(rows, 32), "result");
    fuse(draft.graph);
    CHECK(draft.linear_at(draft.graph.nodes().size() - 1).selected);
  }
}

TEST_CASE("what the host reads, or a second reader needs, is not fused away") {
  SUBCASE("a readable gate") {
    Draft draft;
    const TensorId x = draft.input(64), a = draft.product(x, 96), b = draft.product(x, 96);
    gate(draft.graph, "g", a, b, Activation::silu);
    draft.graph.make_readable(a, "a");
    draft.graph.make_readable(b, "b");
    fuse(draft.graph);
    CHECK(draft.graph.nodes().size() == 3);
  }
  SUBCASE("a product with two readers") {
    Draft draft;
    const TensorId x = draft.input(64), a = draft.product(x, 64);
    add(draft.graph, "sum", a, x);
    activate(draft.graph, "other", a, Activation::relu);
    fuse(draft.graph);
    CHECK(draft.graph.nodes().size() == 3);
  }
}

namespace {

// Queries, keys and values of 4 heads over 2, and how they get into the cache of layer 1.
struct StoringDraft : Draft {
  TensorId q, k, v;
  RotaryStore store;
  Attention operation;

  StoringDraft() {
    const TensorId x = input(64);
    q = product(x, 64, TensorType::f32);
    k = product(x, 32, TensorType::f16);
    v = product(x, 32, TensorType::q8_0);
    store.layer = operation.layer = 1;
    store.heads = operation.heads = 4;
    store.kv_heads = 2;
    store.head_dim = 16;
    store.key_norm = true;
  }
  TensorId rotated() { return rotary_store(graph, "rotated", q, k, v, store, {weight(1, 16)}); }
  const StoringAttention* fused(size_t node) const {
    return dynamic_cast<const StoringAttention*>(graph.nodes()[node].operation.get());
  }
};

} // namespace

TEST_CASE("storing keys and values moves into the attention that reads them") {
  SUBCASE("with a rotation") {
    StoringDraft draft;
    const TensorId result = attention(draft.graph, "result", draft.rotated(), draft.operation);
    attention(draft.graph, "another", result, draft.operation); // of the same layer
    fuse(draft.graph);
    REQUIRE(draft.graph.nodes().size() == 5);
    REQUIRE(draft.fused(3));
    CHECK(draft.fused(3)->rotary->key_norm);
    CHECK(draft.graph.nodes()[3].inputs == std::vector<TensorId>{draft.q, draft.k, draft.v});
    CHECK(draft.graph.nodes()[3].weights.size() == 1);
    CHECK(draft.graph.nodes()[3].output == result);
    CHECK(!draft.fused(4));
  }
  SUBCASE("as they are") {
    StoringDraft draft;
    cache_store(draft.graph, "stored", draft.k, draft.v, 1);
    attention(draft.graph, "result", draft.q, draft.operation);
    fuse(draft.graph);
    REQUIRE(draft.graph.nodes().size() == 4);
    REQUIRE(draft.fused(3));
    CHECK(!draft.fused(3)->rotary);
    CHECK(draft.graph.nodes()[3].inputs == std::vector<TensorId>{draft.q, draft.k, draft.v});
  }
}

TEST_CASE("the product that makes queries, keys and values moves into the attention that stores them") {
  // `readers`: of the values, beside the attention.
  const auto fused = [](TensorType values, bool reader) {
    StoringDraft draft;
    const TensorId x = draft.input(64);
    draft.q = draft.product(x, 64, TensorType::q8_0);
    draft.k = draft.product(x, 32, TensorType::q8_0);
    draft.v = draft.product(x, 32, values);
    const TensorId result = attention(draft.graph, "result", draft.rotated(), draft.operation);
    if (reader) draft.product(draft.v, 8, TensorType::f16);
    fuse(draft.graph);
    const size_t at = draft.graph.producer(result);
    const Node& node = draft.graph.nodes()[at];
    const auto* operation = dynamic_cast<const ProjectingAttention*>(node.operation.get());
    if (!operation) return false;
    CHECK(operation->projection.matrices == 3);
    CHECK(operation->attention.rotary->key_norm);
    CHECK(node.inputs == std::vector<TensorId>{x});
    CHECK(node.weights.size() == 4);
    REQUIRE(node.more_outputs.size() == 1);
    for (TensorId part : {operation->q, operation->k, operation->v})
      CHECK(draft.graph.storage(part) == node.more_outputs[0]);
    return true;
  };
  CHECK(fused(TensorType::q8_0, false));
  CHECK(!fused(TensorType::q8_0, true));
  CHECK(!fused(TensorType::f16, false)); // a product of its own
}

TEST_CASE("storing keys and values does not move into other attentions") {
  SUBCASE("of another layer") {
    StoringDraft draft;
    draft.operation.layer = 2;
    attention(draft.graph, "result", draft.rotated(), draft.operation);
    fuse(draft.graph);
    CHECK(draft.graph.nodes().size() == 5);
  }
  SUBCASE("to a whole input") {
    StoringDraft draft;
    draft.operation.mask = AttentionMask::bidirectional;
    attention(draft.graph, "result", draft.rotated(), draft.operation);
    fuse(draft.graph);
    CHECK(draft.graph.nodes().size() == 5);
  }
  SUBCASE("whose weights are readable too") {
    StoringDraft draft;
    const TensorId result = attention(draft.graph, "result", draft.rotated(), draft.operation);
    draft.graph.make_readable(attention_weights(draft.graph, "weights", result, 8), "weights");
    fuse(draft.graph);
    CHECK(draft.graph.nodes().size() == 6);
  }
}
