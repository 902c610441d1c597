#include "plan/adapters.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/align.h"
#include "kernel/adapter/adapter.h"
#include "kernel/adapter/adapter_packing.h"
#include "kernel/attention/attention.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/matmul/linear.h"
#include "shaders/adapter/adapter_down.params.h"

namespace pumice {

namespace {

constexpr uint64_t range_alignment = 256;
constexpr uint64_t usual_allocation_bytes = uint64_t{256} << 20;

uint32_t padded(uint32_t columns) {
  return static_cast<uint32_t>(align(columns, 32));
}

// Gives the matrices of a graph's adapters their places, one after the other.
class AdapterPlacer {
public:
  explicit AdapterPlacer(const AdapterRoom& room)
      : places_(room.places), rank_(padded_adapter_rank(room.rank)), numbers_(room.numbers) {}

  uint32_t rank() const { return rank_; }
  TensorType numbers() const { return numbers_; }
  BufferRef place_down(uint32_t matrices, uint32_t columns) {
    return place(matrices * adapter_down_bytes(numbers_, rank_, columns));
  }
  BufferRef place_up(uint32_t matrices, uint32_t rows) {
    return place(matrices * adapter_up_bytes(numbers_, rank_, rows));
  }
  BufferRef place(uint64_t bytes_of_place) {
    const uint64_t bytes = places_ * bytes_of_place;
    if (used_ > 0 && used_ + bytes > usual_allocation_bytes) {
      ++allocation_;
      used_ = 0;
    }
    const BufferRef ref{Space::adapters, allocation_, used_, bytes};
    used_ = align(used_ + bytes, range_alignment);
    return ref;
  }

private:
  uint32_t places_, rank_;
  TensorType numbers_;
  uint32_t allocation_ = 0;
  uint64_t used_ = 0; // of the allocation
};

bool is_target(const Graph& graph, const AdapterRoom& room, WeightId weight) {
  return room.targets.contains(AdapterTarget::of(graph.weight(weight).view));
}

const Linear* adapted_linear(const Graph& graph, const AdapterRoom& room, const Node& node) {
  const auto* linear = dynamic_cast<const Linear*>(node.operation.get());
  if (!linear) return nullptr;
  const auto matrices = std::span(node.weights).first(linear->matrices);
  const bool any = std::ranges::any_of(matrices, [&](WeightId id) { return is_target(graph, room, id); });
  return any ? linear : nullptr;
}

// The results of all adapters that read one tensor.
struct Group {
  std::vector<WeightId> weights;
  TensorId h = 0;
  uint32_t used = 0; // members whose products were passed
  bool made = false;
};

class AdapterWriter {
public:
  AdapterWriter(Graph& graph, const AdapterRoom& room, const std::vector<Node>& nodes)
      : graph_(graph), room_(room), placer_(room), readers_(graph.tensors().size()) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (TensorId input : nodes[i].inputs) readers_[input].push_back(i);
      const Linear* linear = adapted_linear(graph, room, nodes[i]);
      if (!linear) continue;
      std::vector<WeightId>& weights = groups_[nodes[i].inputs[0]].weights;
      weights.insert(weights.end(), nodes[i].weights.begin(), nodes[i].weights.begin() + linear->matrices);
    }
  }

  std::vector<Node> write(std::vector<Node> nodes) {
    sums_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      const Linear* linear = adapted_linear(graph_, room_, node);
      if (linear) {
        const TensorId h = h_of(node.inputs[0], linear->matrices);
        const bool adapted = linear->gated || linear->activation != Activation::none;
        const size_t sum = adapted ? nodes.size() : sum_behind(nodes, node.output);
        Node up = up_of(node, *linear, h);
        if (sum < nodes.size()) {
          sums_[sum].push_back(std::move(up));
          result_.push_back(std::move(node));
        } else {
          if (adapted) leave(node, *linear);
          add_with(std::move(node), {std::move(up)});
        }
      } else {
        add_with(std::move(node), std::move(sums_[i]));
      }
    }
    return std::move(result_);
  }

private:
  // Where a product's result is only a term of a sum, the adapter comes after the sum, which the product then
  // can do. Otherwise the number of nodes.
  size_t sum_behind(const std::vector<Node>& nodes, TensorId result) const {
    const std::vector<size_t>& readers = readers_[result];
    if (readers.size() != 1 || graph_.tensor(result).readable) return nodes.size();
    const Node& reader = nodes[readers[0]];
    return dynamic_cast<const Add*>(reader.operation.get()) ? readers[0] : nodes.size();
  }

  // The part of its group's results that a product's adapters have. Makes the group where this is its first
  // product.
  TensorId h_of(TensorId x, uint32_t matrices) {
    Group& group = groups_.at(x);
    const uint32_t rank = placer_.rank();
    const RowKind rows = graph_.tensor(x).rows;
    const std::string name = graph_.tensor(x).name + " for adapters";
    if (!std::exchange(group.made, true)) {
      AdapterDown down;
      down.rank = rank;
      const auto members = static_cast<uint32_t>(group.weights.size());
      down.numbers = placer_.numbers();
      down.matrix = placer_.place_down(members, graph_.tensor(x).columns);
      group.h = graph_.add_tensor({name, rows, members * rank, {}, false});
      result_.push_back({std::make_shared<AdapterDown>(down), {x}, group.weights, group.h, {}});
    }
    if (group.weights.size() == matrices) return group.h;
    const uint32_t first = group.used * rank;
    group.used += matrices;
    return graph_.add_tensor({name, rows, matrices * rank, View{group.h, first}, false});
  }

  Node up_of(const Node& node, const Linear& linear, TensorId h) {
    AdapterUp up;
    up.rank = placer_.rank();
    up.gated = linear.gated;
    up.activation = linear.activation;
    up.numbers = placer_.numbers();
    up.matrix = placer_.place_up(linear.matrices, graph_.tensor(node.output).columns);
    const auto matrices = node.weights.begin() + linear.matrices;
    return {std::make_shared<AdapterUp>(up), {h}, {node.weights.begin(), matrices}, 0, {}};
  }

  // The product leaves its activation and its gate to its adapter.
  void leave(Node& node, const Linear& linear) {
    Linear changed = linear;
    changed.adapted = true;
    node.operation = std::make_shared<Linear>(changed);
  }

  // Adds a node, and after it what adapters do to its result.
  void add_with(Node node, std::vector<Node> ups) {
    const TensorId last = node.output;
    const auto* linear = dynamic_cast<const Linear*>(node.operation.get());
    const bool pairs = linear && linear->gated && linear->adapted;
    if (!ups.empty()) {
      const Tensor& of = graph_.tensor(last);
      const uint32_t columns = pairs ? 2 * padded(of.columns) : of.columns;
      node.output = graph_.add_tensor({of.name + " without adapters", of.rows, columns, {}, false});
    }
    TensorId y = node.output;
    result_.push_back(std::move(node));
    for (size_t i = 0; i < ups.size(); ++i) {
      ups[i].inputs.insert(ups[i].inputs.begin(), y);
      const Tensor& of = graph_.tensor(last);
      const bool more = i + 1 < ups.size();
      y = more ? graph_.add_tensor({of.name + " without all adapters", of.rows, of.columns, {}, false})
               : last;
      ups[i].output = y;
      result_.push_back(std::move(ups[i]));
    }
  }

  Graph& graph_;
  const AdapterRoom& room_;
  AdapterPlacer placer_;
  std::vector<std::vector<size_t>> readers_; // of each tensor: nodes
  std::map<TensorId, Group> groups_;         // by what they read
  std::vector<std::vector<Node>> sums_;      // by node: what adapters do to its result
  std::vector<Node> result_;
};

} // namespace

void add_adapters(Graph& graph, const AdapterRoom& room, std::vector<Node>& nodes) {
  const size_t before = nodes.size();
  nodes = AdapterWriter(graph, room, nodes).write(std::move(nodes));
  graph.count_added(nodes.size() - before);
}

void add_adapters_to_products(Graph& graph, const AdapterRoom& room, std::vector<Node>& nodes) {
  const size_t before = nodes.size();
  AdapterPlacer placer(room);
  const uint32_t rank = placer.rank();
  std::map<TensorId, Group> groups; // by what they read
  const auto matrices_of = [](const Node& node, const Linear& linear) {
    return std::span(node.weights).first(linear.matrices);
  };
  for (const Node& node : nodes) {
    const Linear* linear = adapted_linear(graph, room, node);
    if (!linear) continue;
    std::vector<WeightId>& weights = groups[node.inputs[0]].weights;
    std::ranges::copy_if(matrices_of(node, *linear), std::back_inserter(weights),
                         [&](WeightId weight) { return is_target(graph, room, weight); });
  }
  std::vector<Node> result;
  for (Node& node : nodes) {
    if (const Linear* linear = adapted_linear(graph, room, node)) {
      const TensorId x = node.inputs[0];
      Group& group = groups.at(x);
      if (!std::exchange(group.made, true)) {
        const auto members = static_cast<uint32_t>(group.weights.size());
        AdapterDown down;
        down.for_products = true;
        down.rank = rank;
        down.numbers = placer.numbers();
        down.matrix = placer.place_down(members, graph.tensor(x).columns);
        group.h = graph.add_tensor({graph.tensor(x).name + " for adapters",
                                    graph.tensor(x).rows,
                                    adapter_h_columns(true, members, rank),
                                    {},
                                    false});
        result.push_back({std::make_shared<AdapterDown>(down), {x}, group.weights, group.h, {}});
      }
      Linear changed = *linear;
      LinearAdapter& adapter = changed.adapter.emplace();
      adapter.rank = rank;
      adapter.numbers = placer.numbers();
      adapter.first = group.used;
      for (WeightId weight : matrices_of(node, *linear)) {
        if (is_target(graph, room, weight)) ++group.used;
        adapter.place_bytes += adapter_tiles_bytes(adapter.numbers, rank, graph.weight(weight).view.rows);
      }
      adapter.matrix = placer.place(adapter.place_bytes);
      node.operation = std::make_shared<Linear>(changed);
      node.inputs.push_back(group.h);
    }
    result.push_back(std::move(node));
  }
  nodes = std::move(result);
  graph.count_added(nodes.size() - before);
}

AdapterMemory AdapterMemory::of(const Graph& graph, uint32_t places) {
  AdapterMemory memory;
  struct Down {
    BufferRef matrix;
    size_t members = 0;
    std::vector<WeightId> weights;
  };
  std::map<TensorId, Down> downs; // by the tensor that they write
  const auto count = [&](const BufferRef& ref) {
    memory.allocation_bytes.resize(std::max<size_t>(memory.allocation_bytes.size(), ref.allocation + 1));
    uint64_t& bytes = memory.allocation_bytes[ref.allocation];
    bytes = std::max(bytes, ref.offset + ref.bytes);
  };
  const auto part_of = [&](WeightId weight) {
    const WeightView& view = graph.weight(weight).view;
    AdapterPart part;
    part.target = AdapterTarget::of(view);
    part.rows = static_cast<uint32_t>(view.rows);
    part.columns = static_cast<uint32_t>(view.columns);
    return part;
  };
  const auto part_down = [&](AdapterPart& part, const Down& down, uint32_t member) {
    part.down = down.matrix;
    part.down_step = down.matrix.bytes / places;
    part.down_first = member * part.down_step / down.members;
  };
  for (const Node& node : graph.nodes()) {
    if (const auto* down = dynamic_cast<const AdapterDown*>(node.operation.get())) {
      downs[node.output] = {down->matrix, node.weights.size(), node.weights};
      memory.rank = down->rank;
      memory.numbers = down->numbers;
      count(down->matrix);
    }
    const auto* projecting = dynamic_cast<const ProjectingAttention*>(node.operation.get());
    const auto* linear =
        projecting ? &projecting->projection : dynamic_cast<const Linear*>(node.operation.get());
    if (linear && linear->adapter) {
      count(linear->adapter->matrix);
      const Down& down = downs.at(node.inputs[linear->residual ? 2 : 1]);
      uint32_t member = linear->adapter->first;
      uint64_t up_first = 0;
      for (WeightId weight : std::span(node.weights).first(linear->matrices)) {
        AdapterPart part = part_of(weight);
        part.up = linear->adapter->matrix;
        part.up_step = linear->adapter->place_bytes;
        part.up_first = up_first;
        part.h_first = ADAPTER_HEAD + member * memory.rank;
        up_first += adapter_tiles_bytes(memory.numbers, memory.rank, part.rows);
        if (member < down.members && down.weights[member] == weight) part_down(part, down, member++);
        memory.parts.push_back(std::move(part));
      }
    }
    const auto* up = dynamic_cast<const AdapterUp*>(node.operation.get());
    if (!up) continue;
    count(up->matrix);
    const Tensor& h = graph.tensor(node.inputs[1]);
    const Down& down = downs.at(graph.storage(node.inputs[1]));
    const uint32_t first = h.view ? h.view->first_column / up->rank : 0;
    for (uint32_t i = 0; i < node.weights.size(); ++i) {
      AdapterPart part = part_of(node.weights[i]);
      part_down(part, down, first + i);
      part.up = up->matrix;
      part.up_step = up->matrix.bytes / places;
      part.up_first = i * part.up_step / node.weights.size();
      memory.parts.push_back(std::move(part));
    }
  }
  return memory;
}

} // namespace pumice
