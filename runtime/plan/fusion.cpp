#include "plan/fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "io/quantize.h"
#include "kernel/attention/attention.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/matmul/linear.h"
#include "kernel/norm/norm.h"
#include "kernel/weight_packing.h"

namespace pumice {

namespace {

template <class Op>
const Op* as(const Node& node) {
  return dynamic_cast<const Op*>(node.operation.get());
}

// For each tensor, the nodes that read it.
std::vector<std::vector<size_t>> readers(const Graph& graph, const std::vector<Node>& nodes) {
  std::vector<std::vector<size_t>> result(graph.tensors().size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (TensorId input : nodes[i].inputs) result[input].push_back(i);
  }
  return result;
}

bool same_matrix_type(const Graph& graph, std::optional<TensorType> weights, WeightId a, WeightId b) {
  const WeightView& left = graph.weight(a).view;
  const WeightView& right = graph.weight(b).view;
  return quantized_type(left.type(), weights) == quantized_type(right.type(), weights) &&
         left.columns == right.columns;
}

// A plain product that nothing has been fused into yet.
const Linear* plain_linear(const Node& node) {
  const Linear* linear = as<Linear>(node);
  const bool plain = linear && linear->matrices == 1 && !linear->residual && !linear->gated;
  return plain && !linear->norm_after && !linear->selected ? linear : nullptr;
}

size_t producer(const std::vector<Node>& nodes, TensorId tensor) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].output == tensor) return i;
  }
  return nodes.size();
}

void erase(std::vector<Node>& nodes, const std::set<size_t>& dead) {
  std::vector<Node> left;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!dead.count(i)) left.push_back(std::move(nodes[i]));
  }
  nodes = std::move(left);
}

// gate(product, product), where both products have the same input, becomes one gated product.
void fuse_gates(Graph& graph, std::optional<TensorType> weights, std::vector<Node>& nodes) {
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (Node& node : nodes) {
    const Gate* gate = as<Gate>(node);
    if (!gate) continue;
    const size_t first = producer(nodes, node.inputs[0]), second = producer(nodes, node.inputs[1]);
    if (first == nodes.size() || second == nodes.size() || first == second) continue;
    const Linear* a = plain_linear(nodes[first]);
    const Linear* b = plain_linear(nodes[second]);
    if (!a || !b || a->bias != b->bias || a->activation != Activation::none ||
        b->activation != Activation::none)
      continue;
    if (nodes[first].inputs[0] != nodes[second].inputs[0]) continue;
    if (!same_matrix_type(graph, weights, nodes[first].weights[0], nodes[second].weights[0])) continue;
    if (graph.tensor(node.inputs[0]).readable || graph.tensor(node.inputs[1]).readable) continue;
    if (used_by[node.inputs[0]].size() != 1 || used_by[node.inputs[1]].size() != 1) continue;

    Linear fused;
    fused.matrices = 2;
    fused.gated = true;
    fused.bias = a->bias;
    fused.activation = gate->activation;
    node.weights = {nodes[first].weights[0], nodes[second].weights[0]};
    if (a->bias) node.weights.insert(node.weights.end(), {nodes[first].weights[1], nodes[second].weights[1]});
    node.inputs = {nodes[first].inputs[0]};
    node.operation = std::make_shared<Linear>(fused);
    dead.insert({first, second});
  }
  erase(nodes, dead);
}

// activation(product) becomes a product with an activation, where nothing else reads the product.
void fuse_activations(Graph& graph, std::vector<Node>& nodes) {
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (Node& node : nodes) {
    const Activate* activate = as<Activate>(node);
    if (!activate) continue;
    const TensorId product = node.inputs[0];
    const size_t at = producer(nodes, product);
    const Linear* linear = at == nodes.size() ? nullptr : plain_linear(nodes[at]);
    if (!linear || linear->activation != Activation::none) continue;
    if (graph.tensor(product).readable || used_by[product].size() != 1) continue;

    Linear fused = *linear;
    fused.activation = activate->activation;
    node.inputs = nodes[at].inputs;
    node.weights = nodes[at].weights;
    node.operation = std::make_shared<Linear>(fused);
    dead.insert(at);
  }
  erase(nodes, dead);
}

// add(product, other) becomes a product with a residual, where nothing else reads the product and the other
// term is computed before it.
void fuse_residuals(Graph& graph, std::vector<Node>& nodes) {
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!as<Add>(nodes[i])) continue;
    for (int side : {0, 1}) {
      const TensorId term = nodes[i].inputs[side], other = nodes[i].inputs[1 - side];
      const size_t at = producer(nodes, term);
      if (at == nodes.size() || dead.count(at)) continue;
      const Linear* linear = as<Linear>(nodes[at]);
      const size_t other_at = producer(nodes, graph.storage(other));
      if (!linear || linear->residual || linear->gated || linear->matrices != 1) continue;
      if (graph.tensor(term).readable || used_by[term].size() != 1 || graph.tensor(other).view) continue;
      if (other_at != nodes.size() && other_at >= i) continue;

      Linear fused = *linear;
      fused.residual = true;
      nodes[i].inputs = {nodes[at].inputs[0], other};
      nodes[i].weights = nodes[at].weights;
      nodes[i].operation = std::make_shared<Linear>(fused);
      dead.insert(at);
      break;
    }
  }
  erase(nodes, dead);
}

// Returns the tensor of the selected rows of `rows`. There is one SelectRows node for each tensor: it is
// made, or moved, right before node `at`, and `at` then grows by one. A selection that comes even earlier
// stays where it is.
TensorId select_before(Graph& graph, std::vector<Node>& nodes, size_t& at, TensorId rows) {
  Node select;
  const auto same = std::ranges::find_if(
      nodes, [&](const Node& node) { return as<SelectRows>(node) && node.inputs[0] == rows; });
  if (same == nodes.end()) {
    const Tensor& all = graph.tensor(rows);
    select.operation = std::make_shared<SelectRows>();
    select.inputs = {rows};
    select.output = graph.add_tensor({"selected " + all.name, RowKind::outputs, all.columns, {}, false});
  } else {
    if (same - nodes.begin() < static_cast<ptrdiff_t>(at)) return same->output;
    select = std::move(*same);
    nodes.erase(same);
  }
  const TensorId selected = select.output;
  nodes.insert(nodes.begin() + static_cast<ptrdiff_t>(at++), std::move(select));
  return selected;
}

// Moves selections of rows towards the beginning of the graph: select(f(a, b)) becomes f(select(a),
// select(b)) as long as f computes each row from the same row of its inputs, and no cut is between f and the
// selection. Then f runs on the selected rows only. Returns the number of products that get fewer rows.
size_t move_selections_up(Graph& graph, std::span<const TensorId> cuts, std::vector<Node>& nodes) {
  std::set<TensorId> ends;
  for (TensorId cut : cuts) ends.insert(graph.storage(cut));
  size_t products = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    const TensorId rows = nodes[i].output;
    const bool alone = nodes[i].operation->by_row() && nodes[i].more_outputs.empty();
    if (!alone || graph.tensor(rows).readable) continue;
    const auto reads = [&](const Node& node) { // or a view of it
      return std::ranges::any_of(node.inputs, [&](TensorId input) { return graph.storage(input) == rows; });
    };
    const auto select = std::ranges::find_if(nodes, reads);
    if (select == nodes.end() || !as<SelectRows>(*select)) continue;
    if (std::any_of(select + 1, nodes.end(), reads)) continue;
    const auto node = nodes.begin() + static_cast<ptrdiff_t>(i);
    if (std::any_of(node, select, [&](const Node& each) { return ends.contains(each.output); })) continue;
    const std::vector<TensorId> inputs = nodes[i].inputs;
    if (std::ranges::any_of(inputs, [&](TensorId input) { return graph.tensor(input).view.has_value(); }))
      continue;

    nodes[i].output = select->output;
    if (!graph.tensor(nodes[i].output).readable) graph.tensor(nodes[i].output).name = graph.tensor(rows).name;
    nodes.erase(select);
    size_t at = i;
    std::vector<TensorId> selected;
    for (TensorId input : inputs) selected.push_back(select_before(graph, nodes, at, input));
    nodes[at].inputs = std::move(selected);
    products += as<Linear>(nodes[at]) != nullptr;
  }
  return products;
}

// A product of selected rows reads the rows where they are, without a copy. Its residual, if it has one, must
// be selected too.
void fuse_selections(Graph& graph, std::vector<Node>& nodes) {
  const auto source = [&](TensorId tensor) -> std::optional<TensorId> {
    const size_t at = producer(nodes, tensor);
    if (at == nodes.size() || !as<SelectRows>(nodes[at]) || graph.tensor(tensor).readable) return {};
    return nodes[at].inputs[0];
  };
  for (Node& node : nodes) {
    const Linear* linear = as<Linear>(node);
    if (!linear || linear->selected) continue;
    std::vector<TensorId> sources;
    for (TensorId input : node.inputs) {
      if (const std::optional<TensorId> from = source(input)) sources.push_back(*from);
    }
    if (sources.size() != node.inputs.size()) continue;
    Linear changed = *linear;
    changed.selected = true;
    node.operation = std::make_shared<Linear>(changed);
    node.inputs = std::move(sources);
  }
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const TensorId rows = nodes[i].output;
    if (as<SelectRows>(nodes[i]) && used_by[rows].empty() && !graph.tensor(rows).readable) dead.insert(i);
  }
  erase(nodes, dead);
}

// norm(product) becomes a part of the product before it and of the products after it, where only products
// read the norm's result.
void fuse_norms(Graph& graph, std::vector<Node>& nodes) {
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const RmsNorm* norm = as<RmsNorm>(nodes[i]);
    if (!norm || norm->groups > 1) continue;
    const TensorId x = nodes[i].inputs[0], normed = nodes[i].output;
    const size_t at = producer(nodes, x);
    const Linear* before = at == nodes.size() ? nullptr : as<Linear>(nodes[at]);
    if (!before || before->matrices != 1 || before->gated || before->norm_after) continue;
    if (graph.tensor(x).readable || graph.tensor(normed).readable) continue;
    const std::vector<size_t>& after = used_by[normed];
    const bool only_products = std::all_of(after.begin(), after.end(), [&](size_t reader) {
      const Node& node = nodes[reader];
      return as<Linear>(node) && std::count(node.inputs.begin(), node.inputs.end(), normed) == 1 &&
             node.inputs[0] == normed;
    });
    if (after.empty() || !only_products) continue;

    const NormSplit split = {norm->eps, norm->weight_offset, graph.tensor(x).columns};
    const Tensor both = {graph.tensor(x).name + "+" + graph.tensor(normed).name,
                         graph.tensor(x).rows,
                         split.row_columns(),
                         {},
                         false};
    const TensorId base = graph.add_tensor(both);
    graph.make_view(x, {base, 0});
    graph.make_view(normed, {base, split.normed_at()});
    Linear changed = *before;
    changed.norm_after = split;
    nodes[at].operation = std::make_shared<Linear>(changed);
    nodes[at].weights.push_back(nodes[i].weights[0]);
    nodes[at].output = base;
    for (size_t reader : after) {
      Linear following = *as<Linear>(nodes[reader]);
      following.norm_before = split;
      nodes[reader].operation = std::make_shared<Linear>(following);
    }
    dead.insert(i);
  }
  erase(nodes, dead);
}

// For each matrix of a fused graph's products, the first one of its product.
using Groups = std::map<WeightId, WeightId>;

Groups groups_of(const Graph& graph) {
  Groups groups;
  for (const Node& node : graph.nodes()) {
    const Linear* linear = as<Linear>(node);
    if (const auto* attention = as<ProjectingAttention>(node)) linear = &attention->projection;
    for (uint32_t i = 0; linear && i < linear->matrices; ++i) groups[node.weights[i]] = node.weights[0];
  }
  return groups;
}

// Products of the same input become one product, if no cut is between them. Their results become views of its
// result. With `groups`, only those of one group.
void merge_siblings(Graph& graph, std::optional<TensorType> weights, std::span<const TensorId> cuts,
                    const Groups* groups, std::vector<Node>& nodes) {
  std::set<size_t> dead, ends;
  for (TensorId cut : cuts) ends.insert(producer(nodes, graph.storage(cut)));
  const auto cut_between = [&](size_t earlier, size_t later) {
    const auto end = ends.lower_bound(earlier);
    return end != ends.end() && *end < later;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Linear* first = plain_linear(nodes[i]);
    if (!first || dead.count(i) || graph.tensor(nodes[i].output).readable) continue;
    std::vector<size_t> group = {i};
    for (size_t j = i + 1; j < nodes.size(); ++j) {
      const Linear* other = plain_linear(nodes[j]);
      if (!other || dead.count(j) || nodes[j].inputs[0] != nodes[i].inputs[0]) continue;
      if (cut_between(i, j)) break;
      if (other->bias != first->bias || other->activation != first->activation) continue;
      if (other->adapted != first->adapted) continue;
      if (groups && groups->at(nodes[j].weights[0]) != groups->at(nodes[i].weights[0])) continue;
      if (graph.tensor(nodes[j].output).readable) continue;
      if (same_matrix_type(graph, weights, nodes[i].weights[0], nodes[j].weights[0])) group.push_back(j);
    }
    if (group.size() < 2) continue;

    Linear merged = *first;
    merged.matrices = static_cast<uint32_t>(group.size());
    std::vector<WeightId> matrices, biases;
    uint32_t columns = 0;
    const TensorId base = graph.add_tensor({"", graph.tensor(nodes[i].output).rows, 0, {}, false});
    for (size_t member : group) {
      const Tensor& result = graph.tensor(nodes[member].output);
      graph.tensor(base).name += (columns ? "+" : "") + result.name;
      graph.make_view(nodes[member].output, {base, columns});
      columns += (result.columns + merged_columns - 1) / merged_columns * merged_columns;
      matrices.push_back(nodes[member].weights[0]);
      if (merged.bias) biases.push_back(nodes[member].weights[1]);
      if (member != i) dead.insert(member);
    }
    graph.tensor(base).columns = columns;
    matrices.insert(matrices.end(), biases.begin(), biases.end());
    nodes[i].operation = std::make_shared<Linear>(merged);
    nodes[i].weights = std::move(matrices);
    nodes[i].output = base;
  }
  erase(nodes, dead);
}

// A causal attention and the earlier node that stores the step's keys and values in the cache of its layer
// become one node.
void fuse_stores(Graph& graph, std::vector<Node>& nodes) {
  const auto used_by = readers(graph, nodes);
  std::set<size_t> dead;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Attention* attention = as<Attention>(nodes[i]);
    if (!attention || attention->mask != AttentionMask::causal) continue;
    if (!nodes[i].more_outputs.empty())
      continue; // the host wants its attention weights, which are computed from its inputs
    for (size_t at = 0; at < i; ++at) {
      const RotaryStore* rotary = as<RotaryStore>(nodes[at]);
      const CacheStore* store = as<CacheStore>(nodes[at]);
      if (dead.count(at) || (!rotary && !store)) continue;
      if ((rotary ? rotary->layer : store->layer) != attention->layer) continue;
      const TensorId stored = nodes[at].output;
      const size_t own_readers = rotary ? 1 : 0;
      if (graph.tensor(stored).readable || used_by[stored].size() != own_readers) continue;
      if (rotary && stored != nodes[i].inputs[0]) continue;

      StoringAttention fused;
      fused.attention = *attention;
      if (rotary) fused.rotary = *rotary;
      const TensorId q = rotary ? nodes[at].inputs[0] : nodes[i].inputs[0];
      const size_t k = rotary ? 1 : 0;
      std::vector<TensorId> inputs = {q, nodes[at].inputs[k], nodes[at].inputs[k + 1]};
      inputs.insert(inputs.end(), nodes[i].inputs.begin() + 1, nodes[i].inputs.end());
      nodes[i].inputs = std::move(inputs);
      nodes[i].weights.insert(nodes[i].weights.begin(), nodes[at].weights.begin(), nodes[at].weights.end());
      nodes[i].operation = std::make_shared<StoringAttention>(std::move(fused));
      dead.insert(at);
      break;
    }
  }
  erase(nodes, dead);
}

// An attention and the product that makes its queries, keys and values become one node, where nothing else
// reads that product.
void fuse_projections(Graph& graph, std::vector<Node>& nodes) {
  std::set<size_t> dead;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const StoringAttention* attention = as<StoringAttention>(nodes[i]);
    if (!attention) continue;
    const std::vector<TensorId> inputs = nodes[i].inputs;
    const TensorId row = graph.storage(inputs[0]);
    const size_t at = producer(nodes, row);
    const Linear* linear = at == nodes.size() ? nullptr : as<Linear>(nodes[at]);
    if (!linear || linear->matrices != inputs.size() || linear->gated) continue;
    const bool only_views = std::ranges::all_of(inputs, [&](TensorId input) {
      return graph.tensor(input).view && graph.storage(input) == row && !graph.tensor(input).readable;
    });
    const auto reads_row = [&](const Node& node) {
      return &node != &nodes[i] &&
             std::ranges::any_of(node.inputs, [&](TensorId input) { return graph.storage(input) == row; });
    };
    if (!only_views || graph.tensor(row).readable || std::ranges::any_of(nodes, reads_row)) continue;
    if (graph.tensor(inputs[0]).view->first_column != 0) continue;

    ProjectingAttention fused;
    fused.projection = *linear;
    fused.projection_weights = nodes[at].weights.size();
    fused.attention = *attention;
    fused.q = inputs[0];
    fused.k = inputs[1];
    fused.v = inputs[2];
    nodes[i].inputs = nodes[at].inputs;
    nodes[i].weights.insert(nodes[i].weights.begin(), nodes[at].weights.begin(), nodes[at].weights.end());
    nodes[i].more_outputs = {row};
    nodes[i].operation = std::make_shared<ProjectingAttention>(std::move(fused));
    dead.insert(at);
  }
  erase(nodes, dead);
}

} // namespace

void fuse(Graph& graph, std::optional<TensorType> weights, std::span<const TensorId> cuts,
          const AdapterRoom* adapters, bool in_products) {
  // Where adapters keep a norm apart, products could be merged that are not without them.
  std::optional<Groups> groups;
  const bool behind_products = adapters && !in_products;
  if (behind_products) {
    Graph plain = graph;
    fuse(plain, weights, cuts);
    groups = groups_of(plain);
  }
  std::vector<Node> nodes(graph.nodes().begin(), graph.nodes().end());
  // Moving selections pays only where a product gets fewer rows. Before other operations, the copy of the
  // rows costs more than the operation saves.
  Graph moved = graph;
  std::vector<Node> moved_nodes = nodes;
  if (move_selections_up(moved, cuts, moved_nodes) > 0) {
    graph = std::move(moved);
    nodes = std::move(moved_nodes);
  }
  fuse_gates(graph, weights, nodes);
  fuse_activations(graph, nodes);
  if (behind_products) add_adapters(graph, *adapters, nodes);
  fuse_residuals(graph, nodes);
  fuse_selections(graph, nodes);
  fuse_norms(graph, nodes);
  merge_siblings(graph, weights, cuts, groups ? &*groups : nullptr, nodes);
  if (adapters && in_products) add_adapters_to_products(graph, *adapters, nodes);
  fuse_stores(graph, nodes);
  fuse_projections(graph, nodes);
  graph.replace_nodes(std::move(nodes));
}

} // namespace pumice
